// Parts of the protocol that only who knows a key may use, and tokens that all must have.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/status.h"

namespace camshaft::server {

/// By Triton's names: "health", "metadata", "inference", "shared-memory", "model-config", "model-repository",
/// "statistics", "trace", "logging".
enum class Api {
  health,
  metadata,
  inference,
  shared_memory,
  model_config,
  model_repository,
  statistics,
  trace,
  logging
};

/// Which header (HTTP) or metadata (gRPC, whose names are in lower case) a request for an API must carry.
class RestrictedApis {
 public:
  /// "health,metadata:key=value", as --http-restricted-api and --grpc-restricted-protocol have it. Throws
  /// ServerError(invalid_argument) for another form, an unknown API, and one that is restricted already. `prefix` is
  /// put before the key.
  void add(std::string_view text, std::string_view prefix = "");
  bool empty() const { return keys_.empty(); }
  /// Null: anyone may.
  const std::pair<std::string, std::string>* key(Api api) const;

 private:
  std::map<Api, std::pair<std::string, std::string>> keys_;
};

/// Whether two texts are the same, in a time that tells nothing of where they differ.
bool same_secret(std::string_view given, std::string_view expected);

/// Tokens of a file, one a line; empty lines and those that start with '#' are none. The file is read again when it
/// changes. Safe from several threads.
class BearerTokens {
 public:
  BearerTokens() = default;
  /// Throws ServerError(invalid_argument) for a file that cannot be read or has no token.
  explicit BearerTokens(std::filesystem::path file);
  /// Whether requests need one.
  bool required() const { return !file_.empty(); }
  /// Of "Authorization": whether it is "Bearer " and one of the tokens. A file that is gone accepts none.
  bool accepts(std::string_view authorization);

 private:
  void read();

  std::filesystem::path file_;
  std::mutex mutex_;
  std::filesystem::file_time_type written_;
  std::vector<std::string> tokens_;
};

/// Files in PEM form for encrypted connections; without a certificate they are not.
struct TlsFiles {
  std::string certificate;  ///< the server's, with those that lead to the authority's
  std::string key;          ///< its private key
  std::string authorities;  ///< of clients' certificates
  bool mutual = false;      ///< clients must have a certificate of `authorities`
  bool enabled() const { return !certificate.empty(); }
};

}  // namespace camshaft::server
