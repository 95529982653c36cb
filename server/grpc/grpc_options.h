// What the gRPC front end is started with.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace camshaft::server {

struct GrpcOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8001;     ///< 0: a free one, which GrpcServer::port() tells
  bool reuse_port = false;  ///< other processes may listen there, too
  int threads = 2;          ///< that read requests and hand them to their models

  /// PEM files; without `server_certificate` and `server_key` connections are in the clear. With `mutual_tls` clients
  /// need a certificate that `root_certificates` vouch for.
  bool tls = false, mutual_tls = false;
  std::string server_certificate, server_key, root_certificates;
  /// A file with one bearer token a line ('#': a comment): calls need one as "authorization: Bearer …", except for those
  /// of health. Empty: none is asked for. SIGHUP does not read it again.
  std::string bearer_token_file;
  /// By category ("health", "metadata", "inference", "shared-memory", "model-config", "model-repository", "statistics",
  /// "trace", "logging") the name and value of the metadata that a call must have:
  /// {"model-repository", {"admin-key", "secret"}} asks for "triton-grpc-protocol-admin-key: secret".
  std::map<std::string, std::pair<std::string, std::string>> restricted;

  /// In bytes, of one request or response.
  int max_message_size = std::numeric_limits<int32_t>::max();
  /// The metadata whose names match this regular expression (RE2) wholly are parameters of the request. Empty: none.
  std::string forward_header_pattern;
  std::string compression_level = "none";  ///< of responses: "none", "low", "medium", "high"

  int keepalive_time_ms = 7200000;
  int keepalive_timeout_ms = 20000;
  bool keepalive_permit_without_calls = false;
  int http2_max_pings_without_data = 2;
  int http2_min_recv_ping_interval_without_data_ms = 300000;
  int http2_max_ping_strikes = 2;
  int max_connection_age_ms = 0;  ///< 0: no end
  int max_connection_age_grace_ms = 0;

  /// How long stop() waits for calls under way before it cancels them.
  int exit_timeout_seconds = 30;
};

}  // namespace camshaft::server
