// The server without a protocol: what both front ends call.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "server/core/log.h"
#include "server/core/model_manager.h"
#include "server/core/request_memory.h"
#include "server/core/shared_memory.h"
#include "server/core/trace.h"

namespace camshaft::server {

struct ServerOptions {
  std::string id = "camshaft";  ///< --id; Triton's clients show it
  ModelManagerOptions models;
  bool allow_client_shared_memory = false;
  bool strict_readiness = true;  ///< ready only if every model is
  int exit_timeout_seconds = 30;
  uint64_t request_memory = default_request_memory();
  TraceSettings trace;
};

class Server {
 public:
  explicit Server(ServerOptions options);

  void start() { models_.start(); }
  /// Answers what was taken, refuses the rest: server_ready() is false from now on.
  void stop();

  bool live() const { return true; }
  bool ready() const;
  const std::string& id() const { return options_.id; }
  std::string version() const;
  /// The extensions of the protocol that it has, in Triton's names.
  const std::vector<std::string>& extensions() const;

  /// Hands a request to its model. Every request is answered through `respond`, what is wrong with it as well.
  void infer(Request request, Respond respond) noexcept;

  ModelManager& models() { return models_; }
  /// Of bodies and messages, whatever the protocol.
  const std::shared_ptr<RequestMemory>& request_memory() { return request_memory_; }
  SharedMemory& shared_memory() { return shared_memory_; }
  TraceSettingsStore& trace() { return trace_; }
  LogSettings& log() { return log_; }

 private:
  ServerOptions options_;
  std::shared_ptr<RequestMemory> request_memory_;
  SharedMemory shared_memory_;
  TraceSettingsStore trace_;
  LogSettings log_;
  ModelManager models_;  // last: its requests use what stands before
  std::atomic<bool> stopping_ = false;
};

}  // namespace camshaft::server
