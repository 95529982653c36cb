// What a running server says of itself, over HTTP.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace camshaft::server {

/// Where a server is, and what it asks of its clients.
struct StatusSource {
  std::string url = "http://localhost:8000";
  std::string token_file;   ///< empty: no token
  std::string root_cert;    ///< authorities of the server's certificate; empty: the system's
  std::string client_cert;  ///< for servers that ask for one
  std::string client_key;
};

/// Reads the document behind the server's page, a connection each time.
class StatusClient {
 public:
  /// Throws ServerError(invalid_argument) for what is no URL of a server, and for files that cannot be read.
  explicit StatusClient(StatusSource source);

  /// Throws ServerError: unavailable where nothing answers within some seconds, permission_denied for a token that is
  /// missing or wrong, unsupported for a server without this document.
  nlohmann::json read() const;
  /// HOST:PORT.
  const std::string& place() const { return place_; }

 private:
  std::string exchange(int& status) const;

  StatusSource source_;
  bool tls_ = false;
  std::string host_, port_, place_;
};

}  // namespace camshaft::server
