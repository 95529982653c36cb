#include "server/grpc/stream_call.h"

#include <map>
#include <optional>

#include "server/grpc/grpc_status.h"
#include "server/grpc/infer_call.h"
#include "server/grpc/infer_request.h"
#include "server/grpc/infer_response.h"
#include "server/grpc/stream_outbox.h"

namespace camshaft::server {
namespace {

/// A client that does not read what it asked for is not read from either: so many bytes wait for it at most, and a
/// response more. A client may have so many requests under way at once.
constexpr uint64_t stream_unsent_bytes = 64u << 20;
constexpr size_t stream_requests = 16384;

/// How errors are told, which a client chooses by metadata: "triton_grpc_error: true" ends the stream with the first
/// one.
constexpr const char* grpc_error_metadata = "triton_grpc_error";

}  // namespace

class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  StreamCall(CallContext& context, grpc::ServerCompletionQueue& queue)
      : context_(context), queue_(queue), stream_(&grpc_) {}
  ~StreamCall() { context_.streams.remove(this); }

  void accept() {
    grpc_.AsyncNotifyWhenDone(done_.start(shared_from_this()));
    context_.inference.RequestModelStreamInfer(&grpc_, &stream_, &queue_, &queue_, begin_.start(shared_from_this()));
  }

  void stop() {
    const std::lock_guard lock(mutex_);
    if (!end_) end_ = stopping_status();
    proceed();
  }

 private:
  /// A request that was read and not answered to the end.
  struct Taken {
    std::string id, model, version;
    bool decoupled = false, enable_empty_final = false;
    uint64_t place = 0;  ///< in the outbox, of one that is not decoupled
    SharedOutputs shared;
    Cancellation cancellation;
  };

  void on_begin(bool ok) {
    if (!ok) return done_.abandon();  // the server ends
    running_.begin(context_);
    accept_stream(context_, queue_);
    context_.streams.add(shared_from_this());
    const grpc::Status access = context_.access.check(grpc_, Api::inference);
    const auto found = grpc_.client_metadata().find(grpc_error_metadata);
    const std::lock_guard lock(mutex_);
    errors_end_ = found != grpc_.client_metadata().end() && found->second == "true";
    if (context_.compression != GRPC_COMPRESS_LEVEL_NONE) grpc_.set_compression_level(context_.compression);
    if (!access.ok()) end_ = access;
    proceed();
  }

  void on_read(bool ok) {
    std::unique_lock lock(mutex_);
    if (ok && !over()) {
      lock.unlock();
      take();
      lock.lock();
    }
    reading_ = false;
    if (!ok) read_all_ = true;
    proceed();
  }

  /// On the queue's thread alone, one after another: the models get the requests in their order.
  void take() {
    auto taken = std::make_shared<Taken>();
    Status status;
    std::optional<Request> request = read(*taken, status);
    uint64_t number;
    {
      const std::lock_guard lock(mutex_);
      number = next_++;
      if (!taken->decoupled) taken->place = outbox_.reserve();
      taken_.emplace(number, taken);
      if (over()) taken->cancellation.cancel();
    }
    const auto respond = [call = shared_from_this(), number, taken](Response response) {
      call->respond(number, *taken, std::move(response));
    };
    if (request) {
      context_.server.infer(std::move(*request), respond);
    } else {
      Response failed;
      failed.status = status;
      respond(std::move(failed));
    }
  }

  std::optional<Request> read(Taken& taken, Status& status) {
    std::optional<MessageBytes> bytes;  // outlives `message`, which is views of it, also where something is thrown
    InferMessage message;
    try {
      const auto received = Clock::now();
      bytes.emplace(message_, *context_.server.request_memory());
      message_.Clear();
      read_infer_message(bytes->span(), message);
      name(taken, message);
      if (context_.stopping) throw ServerError(StatusCode::unavailable, stopping_status().error_message());
      taken.decoupled =
          context_.server.models().find(taken.model, taken.version)->config().model_transaction_policy().decoupled();
      InferRequest made = make_infer_request(message, bytes->owner(), context_.server.shared_memory());
      context_.access.forward(grpc_, made.request.parameters);
      made.request.timeline.received = received;
      taken.enable_empty_final = made.enable_empty_final_response;
      taken.shared = shared_outputs(made.request);
      taken.cancellation = made.request.cancellation;
      return std::move(made.request);
    } catch (...) {
      status = current_exception_status();
      name(taken, message);
      return std::nullopt;
    }
  }
  static void name(Taken& taken, const InferMessage& message) {
    taken.id = message.id;
    taken.model = message.model_name;
    taken.version = message.model_version;
  }

  /// On any thread.
  void respond(uint64_t number, const Taken& taken, Response response) noexcept {
    const bool final = response.final;
    std::optional<grpc::ByteBuffer> message;
    Status status = response.status;
    try {
      if (status.ok()) message = success(taken, response);
    } catch (...) {
      status = current_exception_status();
    }
    const std::lock_guard lock(mutex_);
    if (!status.ok()) {
      if (errors_end_ && !end_) {
        end_ = grpc_status(status);
        outbox_.clear();
        cancel_all();
      }
      message = failure(taken, status, final);
    }
    if (message && !over()) {
      if (taken.decoupled)
        outbox_.put(std::move(*message));
      else
        outbox_.put(taken.place, std::move(*message));
    }
    if (final) taken_.erase(number);
    proceed();
  }

  static std::optional<grpc::ByteBuffer> success(const Taken& taken, Response& response) {
    if (response.empty) {
      if (!taken.enable_empty_final) return std::nullopt;
      response.outputs.clear();
      response.model = taken.model;
      response.version = taken.version;
    }
    response.id = taken.id;
    response.parameters.insert_or_assign("triton_final_response", response.final);
    return write_stream_response(response, taken.shared);
  }
  static grpc::ByteBuffer failure(const Taken& taken, const Status& status, bool final) {
    Response named;
    named.id = taken.id;
    named.model = taken.model;
    named.version = taken.version;
    named.parameters["triton_final_response"] = final;
    return write_stream_error(status.message, named);
  }

  void on_written(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) give_up();
    proceed();
  }

  void on_done(bool) {
    const std::lock_guard lock(mutex_);
    if (grpc_.IsCancelled()) give_up();
    proceed();
  }
  void on_finished(bool) {}

  /// Nobody is there to read any more.
  void give_up() {
    cancelled_ = true;
    outbox_.clear();
    cancel_all();
  }
  /// Whether nothing is sent any more but the status.
  bool over() const { return finished_ || cancelled_ || (end_ && errors_end_); }
  void cancel_all() {
    for (const auto& [number, taken] : taken_) taken->cancellation.cancel();
  }

  /// Begins what can be begun. `mutex_` is held.
  void proceed() {
    if (finished_) return;
    if (!writing_ && !outbox_.empty()) {
      writing_ = true;
      stream_.Write(outbox_.take(), written_.start(shared_from_this()));
    }
    const bool ends = read_all_ || end_ || cancelled_;
    if (ends && !writing_ && (taken_.empty() || over())) {
      finished_ = true;
      const grpc::Status status = end_ ? *end_ : cancelled_ ? grpc::Status::CANCELLED : grpc::Status::OK;
      stream_.Finish(status, finish_.start(shared_from_this()));
      return;
    }
    if (!ends && !reading_ && taken_.size() < stream_requests && outbox_.bytes() < stream_unsent_bytes) {
      reading_ = true;
      stream_.Read(&message_, read_.start(shared_from_this()));
    }
  }

  CallContext& context_;
  grpc::ServerCompletionQueue& queue_;
  RunningCall running_;
  grpc::ServerContext grpc_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  grpc::ByteBuffer message_;  ///< that is read
  CallTag<StreamCall> begin_{&StreamCall::on_begin}, read_{&StreamCall::on_read}, written_{&StreamCall::on_written},
      finish_{&StreamCall::on_finished}, done_{&StreamCall::on_done};

  std::mutex mutex_;  // of all that follows
  StreamOutbox outbox_;
  std::map<uint64_t, std::shared_ptr<const Taken>> taken_;
  uint64_t next_ = 0;
  bool errors_end_ = false;
  bool reading_ = false, read_all_ = false, writing_ = false, cancelled_ = false, finished_ = false;
  std::optional<grpc::Status> end_;  ///< the stream is to end with it
};

void StreamCalls::add(const std::shared_ptr<StreamCall>& call) {
  {
    const std::lock_guard lock(mutex_);
    calls_.emplace(call.get(), call);
    if (!stopping_) return;
  }
  call->stop();
}

void StreamCalls::remove(const StreamCall* call) {
  const std::lock_guard lock(mutex_);
  calls_.erase(call);
}

void StreamCalls::stop() {
  std::vector<std::shared_ptr<StreamCall>> open;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& [address, call] : calls_)
      if (auto held = call.lock()) open.push_back(std::move(held));
  }
  for (const auto& call : open) call->stop();
}

void accept_stream(CallContext& context, grpc::ServerCompletionQueue& queue) {
  std::make_shared<StreamCall>(context, queue)->accept();
}

}  // namespace camshaft::server
