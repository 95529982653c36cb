#include "server/grpc/grpc_server.h"

#include <absl/synchronization/mutex.h>
#include <grpc/support/log.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <limits>
#include <thread>
#include <vector>

#include "server/core/log.h"
#include "server/grpc/call.h"
#include "server/grpc/control.h"
#include "server/grpc/credentials.h"
#include "server/grpc/infer_call.h"
#include "server/grpc/stream_call.h"
#include "server/grpc/workers.h"

namespace camshaft::server {
namespace {

/// Calls that wait for a client at each queue: those that come faster than they are replaced wait in gRPC.
constexpr int accepted_infer_calls = 16, accepted_stream_calls = 4;
/// Loads and unloads at once.
constexpr int control_threads = 4;
/// What gRPC takes for itself beside messages: buffers of connections and calls.
constexpr uint64_t grpc_own_bytes = uint64_t{64} << 20;
/// After all calls were cancelled, so long may models take to notice it.
constexpr std::chrono::seconds cancellation_time{10};

void check_at_least(const char* flag, int64_t value, int64_t least) {
  if (value < least) {
    throw ServerError(StatusCode::invalid_argument, std::string(flag) + " is " + std::to_string(value) +
                                                        ", it must be at least " + std::to_string(least));
  }
}

grpc_compression_level compression_level(const std::string& name) {
  if (name == "none") return GRPC_COMPRESS_LEVEL_NONE;
  if (name == "low") return GRPC_COMPRESS_LEVEL_LOW;
  if (name == "medium") return GRPC_COMPRESS_LEVEL_MED;
  if (name == "high") return GRPC_COMPRESS_LEVEL_HIGH;
  throw ServerError(StatusCode::invalid_argument,
                    "--grpc-infer-response-compression-level: '" + name + "' is none of none, low, medium, high");
}

std::string listening_address(const GrpcOptions& options) {
  const bool v6 = options.address.find(':') != std::string::npos && !options.address.starts_with('[');
  return (v6 ? "[" + options.address + "]" : options.address) + ":" + std::to_string(options.port);
}

/// What gRPC itself has to say goes where the server's log goes.
void log_grpc(gpr_log_func_args* args) {
  const LogKind kind = args->severity == GPR_LOG_SEVERITY_ERROR ? LogKind::error : LogKind::verbose;
  log(kind, std::string("gRPC: ") + args->message);
}

void set_channel_arguments(grpc::ServerBuilder& builder, const GrpcOptions& options) {
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, options.reuse_port ? 1 : 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);  // counts calls for a service that is not served
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, options.keepalive_time_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options.keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, options.keepalive_permit_without_calls ? 1 : 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, options.http2_max_pings_without_data);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             options.http2_min_recv_ping_interval_without_data_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, options.http2_max_ping_strikes);
  if (options.max_connection_age_ms > 0)
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, options.max_connection_age_ms);
  if (options.max_connection_age_grace_ms > 0)
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, options.max_connection_age_grace_ms);
}

}  // namespace

class GrpcServer::State {
 public:
  State(Server& server, GrpcOptions options)
      : options_(std::move(options)),
        access_(options_),
        workers_(control_threads),
        context_{
            server, inference_, health_, access_, workers_, streams_, compression_level(options_.compression_level)} {
    check_at_least("--grpc-infer-thread-count", options_.threads, 1);
    check_at_least("--grpc-max-message-size", options_.max_message_size, 1);
  }

  void start() {
    gpr_set_log_function(log_grpc);
    // Debian's Abseil looks for deadlocks at every lock: 2 % of a request's processor time.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    grpc::ServerBuilder builder;
    int bound = 0;
    builder.AddListeningPort(listening_address(options_), server_credentials(options_.tls), &bound);
    builder.SetMaxReceiveMessageSize(options_.max_message_size);
    builder.SetMaxSendMessageSize(options_.max_message_size);
    set_channel_arguments(builder, options_);
    limit_memory(builder);
    builder.RegisterService(&inference_);
    builder.RegisterService(&health_);
    for (int i = 0; i < options_.threads; ++i) queues_.push_back(builder.AddCompletionQueue());
    listener_ = builder.BuildAndStart();
    if (!listener_ || bound == 0) {
      end_queues();
      throw ServerError(StatusCode::unavailable, "gRPC cannot listen at " + listening_address(options_) +
                                                     ": the port is taken, the address is not this machine's, or the "
                                                     "certificate and its key do not belong together");
    }
    port_ = static_cast<uint16_t>(bound);
    accept_control(context_, *queues_.front());
    for (const auto& queue : queues_) {
      for (int i = 0; i < accepted_infer_calls; ++i) accept_infer(context_, *queue);
      for (int i = 0; i < accepted_stream_calls; ++i) accept_stream(context_, *queue);
    }
    for (const auto& queue : queues_) threads_.emplace_back([&queue] { serve(*queue); });
  }

  /// Whether nothing is under way any more: else the state must stay as long as the process.
  bool stop() {
    if (!listener_) return true;
    context_.stopping = true;
    streams_.stop();
    listener_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(options_.exit_timeout_seconds));
    const auto deadline = Clock::now() + cancellation_time;
    while (context_.running != 0 && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (context_.running != 0) return false;
    end_queues();
    listener_.reset();
    return true;
  }

  uint16_t port() const { return port_; }

 private:
  static void serve(grpc::ServerCompletionQueue& queue) {
    void* tag = nullptr;
    for (bool ok = false; queue.Next(&tag, &ok);) static_cast<CompletionTag*>(tag)->complete(ok);
  }

  /// RequestMemory counts messages when they have come in whole. What has come of others is gRPC's, which ends calls
  /// where all that it holds is more than this: any call, so that there must be room beside what was accepted.
  void limit_memory(grpc::ServerBuilder& builder) const {
    constexpr uint64_t most = std::numeric_limits<int64_t>::max();
    const uint64_t limit = std::min(context_.server.request_memory()->limit(), most / 2);
    grpc::ResourceQuota quota("requests");
    quota.Resize(limit + limit / 4 + grpc_own_bytes);
    builder.SetResourceQuota(quota);
  }

  void end_queues() {
    for (const auto& queue : queues_) queue->Shutdown();
    for (const auto& queue : queues_)
      if (threads_.empty()) serve(*queue);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    queues_.clear();
  }

  const GrpcOptions options_;
  InferenceService inference_;
  HealthService health_;
  Access access_;
  StreamCalls streams_;
  Workers workers_;
  CallContext context_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> listener_;
  std::vector<std::thread> threads_;
  uint16_t port_ = 0;
};

GrpcServer::GrpcServer(Server& server, GrpcOptions options)
    : state_(std::make_unique<State>(server, std::move(options))) {}

GrpcServer::~GrpcServer() {
  stop();
}

void GrpcServer::start() {
  state_->start();
}

void GrpcServer::stop() {
  if (!state_ || state_->stop()) return;
  log(LogKind::error,
      "gRPC: requests are still under way after they were cancelled; they are left to end with the process");
  (void)state_.release();  // their responses may still come
}

uint16_t GrpcServer::port() const {
  return state_ ? state_->port() : uint16_t{0};
}

}  // namespace camshaft::server
