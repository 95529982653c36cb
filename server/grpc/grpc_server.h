// The gRPC front end: the services GRPCInferenceService and grpc.health.v1.Health over a Server.
#pragma once

#include <cstdint>
#include <memory>

#include "server/core/server.h"
#include "server/grpc/grpc_options.h"

namespace camshaft::server {

/// Needs no memory or threads of its own until start(). The Server must outlive it.
class GrpcServer {
 public:
  /// Throws ServerError(invalid_argument) for options that are out of range, naming the flag.
  GrpcServer(Server& server, GrpcOptions options);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  /// Listens. Throws ServerError: invalid_argument for files that cannot be read, unavailable for a port that is taken.
  void start();
  /// Takes no further calls and returns once those under way are answered; after `exit_timeout_seconds` it cancels
  /// them.
  void stop();
  /// The port that it listens at; 0 before start().
  uint16_t port() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft::server
