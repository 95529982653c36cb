// Calls that are under way, by gRPC's asynchronous interface: a completion queue hands back a tag for each operation.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "health.grpc.pb.h"
#include "inference.grpc.pb.h"
#include "server/core/server.h"
#include "server/grpc/access.h"

namespace camshaft::server {

/// All methods asynchronous; the messages of inference come as bytes.
using InferenceService = inference::GRPCInferenceService::WithRawMethod_ModelInfer<
    inference::GRPCInferenceService::WithRawMethod_ModelStreamInfer<inference::GRPCInferenceService::AsyncService>>;
using HealthService = grpc::health::v1::Health::AsyncService;

class Workers;
class StreamCalls;

/// What all calls share. One thread serves each completion queue, so that the tags of a call come one after another.
struct CallContext {
  Server& server;
  InferenceService& inference;
  HealthService& health;
  Access& access;
  Workers& workers;
  StreamCalls& streams;
  const grpc_compression_level compression;
  /// Calls that were begun and not let go of yet: completion queues may end when there are none.
  std::atomic<int64_t> running = 0;
  /// No further requests are taken.
  std::atomic<bool> stopping = false;
};

class CompletionTag {
 public:
  virtual ~CompletionTag() = default;
  /// `ok` is the operation's.
  virtual void complete(bool ok) = 0;
};

/// The tag of an operation of a call: while it is under way it keeps the call.
template <class Call>
class CallTag final : public CompletionTag {
 public:
  using Completed = void (Call::*)(bool ok);
  explicit CallTag(Completed completed) : completed_(completed) {}
  /// To be handed to the operation.
  void* start(std::shared_ptr<Call> call) {
    call_ = std::move(call);
    return static_cast<CompletionTag*>(this);
  }
  void complete(bool ok) override {
    const std::shared_ptr<Call> call = std::move(call_);
    call_.reset();
    (call.get()->*completed_)(ok);
  }
  /// For an operation whose tag will never come.
  void abandon() { call_.reset(); }

 private:
  Completed completed_;
  std::shared_ptr<Call> call_;
};

/// Counts a call that has begun.
class RunningCall {
 public:
  RunningCall() = default;
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;
  ~RunningCall() {
    if (context_ != nullptr) --context_->running;
  }
  void begin(CallContext& context) {
    context_ = &context;
    ++context.running;
  }

 private:
  CallContext* context_ = nullptr;
};

/// What a call that comes too late is answered.
inline grpc::Status stopping_status() {
  return {grpc::StatusCode::UNAVAILABLE, "GRPC server is shutting down and has stopped accepting new requests."};
}

}  // namespace camshaft::server
