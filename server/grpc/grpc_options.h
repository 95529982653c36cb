// What the gRPC front end is started with.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "server/core/restricted_api.h"

namespace camshaft::server {

/// What RestrictedApis::add() puts before the key of --grpc-restricted-protocol.
inline constexpr const char* restricted_protocol_prefix = "triton-grpc-protocol-";

struct GrpcOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8001;     ///< 0: a free one, which GrpcServer::port() tells
  bool reuse_port = false;  ///< other processes may listen there, too
  int threads = 2;          ///< that read requests and hand them to their models

  TlsFiles tls;
  std::string token_file;  ///< calls must bring one of its tokens ("authorization: Bearer …"); those of health need not
  /// Names with the prefix "triton-grpc-protocol-": see restricted_protocol_prefix.
  RestrictedApis restricted;

  /// In bytes, of one request or response.
  int max_message_size = std::numeric_limits<int32_t>::max();
  /// A regular expression: metadata in whose names it is found become parameters of the request. Empty: none.
  std::string forward_headers;
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
