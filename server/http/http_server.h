// The HTTP front end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "server/core/metrics.h"
#include "server/core/restricted_api.h"
#include "server/core/server.h"

namespace camshaft::server {

struct HttpOptions {
  std::string address = "127.0.0.1";  ///< a number: "0.0.0.0" and "::" are all of the machine's
  uint16_t port = 8000;               ///< 0: any that is free
  bool reuse_port = false;            ///< others may listen there, too
  int threads = 8;
  /// Bytes of a body, as sent and as it is after decompression.
  uint64_t max_input_size = 64u << 20;
  /// A regular expression: headers whose whole name fits become parameters of the request. Empty: none.
  std::string forward_headers;
  RestrictedApis restricted;
  TlsFiles tls;
  std::string token_file;  ///< requests must bring one of its tokens; health does not
  bool status_page = true;

  std::chrono::seconds idle_timeout{120};   ///< between two requests
  std::chrono::seconds header_timeout{10};  ///< from a request's first byte to the end of its header
  /// For a body to come in or a response to be taken, and a second more for every 256 KiB.
  std::chrono::seconds body_timeout{60};
  uint32_t max_header_size = 64u << 10;
  uint32_t max_connections = 10000;

  /// The metrics' own port; below 0: none.
  int metrics_port = -1;
  std::string metrics_address;  ///< empty: `address`
  MetricsOptions metrics;
};

/// Listens and answers between start() and stop().
class HttpServer {
 public:
  /// Throws ServerError(invalid_argument) for what is wrong with the options.
  HttpServer(Server& server, HttpOptions options);
  /// stop().
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Throws ServerError(unavailable) for an address that it cannot listen at, naming it.
  void start();
  /// Takes no connection any more, answers what was read, and returns when all connections are closed.
  void stop();
  /// That it listens at.
  uint16_t port() const;
  uint16_t metrics_port() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft::server
