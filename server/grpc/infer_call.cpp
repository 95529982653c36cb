#include "server/grpc/infer_call.h"

#include "server/grpc/grpc_status.h"
#include "server/grpc/infer_request.h"
#include "server/grpc/infer_response.h"

namespace camshaft::server {
namespace {

class InferCall : public std::enable_shared_from_this<InferCall> {
 public:
  InferCall(CallContext& context, grpc::ServerCompletionQueue& queue)
      : context_(context), queue_(queue), responder_(&grpc_) {}

  void accept() {
    grpc_.AsyncNotifyWhenDone(done_.start(shared_from_this()));
    context_.inference.RequestModelInfer(&grpc_, &message_, &responder_, &queue_, &queue_,
                                         begin_.start(shared_from_this()));
  }

 private:
  void on_begin(bool ok) {
    if (!ok) return done_.abandon();  // the server ends
    running_.begin(context_);
    accept_infer(context_, queue_);
    received_ = Clock::now();
    try {
      if (const grpc::Status access = context_.access.check(grpc_, Api::inference); !access.ok()) return fail(access);
      if (context_.stopping) return fail(stopping_status());
      infer();
    } catch (...) {
      fail(current_grpc_status());
    }
  }

  void infer() {
    const MessageBytes bytes(message_, *context_.server.request_memory());
    InferMessage message;
    read_infer_message(bytes.span(), message);
    InferRequest made = make_infer_request(message, bytes.owner(), context_.server.shared_memory());
    message_.Clear();
    Request& request = made.request;
    if (context_.server.models()
            .find(request.model, request.version)
            ->config()
            .model_transaction_policy()
            .decoupled()) {
      throw ServerError(StatusCode::unsupported,
                        "ModelInfer RPC doesn't support models with decoupled transaction policy");
    }
    context_.access.forward(grpc_, request.parameters);
    request.timeline.received = received_;
    shared_ = shared_outputs(request);
    cancellation_ = request.cancellation;
    context_.server.infer(std::move(request),
                          [call = shared_from_this()](Response response) { call->respond(std::move(response)); });
  }

  /// On any thread.
  void respond(Response response) noexcept {
    try {
      if (!response.final) return;  // only decoupled models have others
      if (!response.status.ok()) return fail(grpc_status(response.status));
      if (context_.compression != GRPC_COMPRESS_LEVEL_NONE) grpc_.set_compression_level(context_.compression);
      responder_.Finish(write_infer_response(response, shared_), grpc::Status::OK, finished_.start(shared_from_this()));
    } catch (...) {
      fail(current_grpc_status());
    }
  }
  void fail(const grpc::Status& status) { responder_.FinishWithError(status, finished_.start(shared_from_this())); }

  void on_finished(bool) {}
  void on_done(bool) {
    if (cancellation_ && grpc_.IsCancelled()) cancellation_->cancel();
  }

  CallContext& context_;
  grpc::ServerCompletionQueue& queue_;
  RunningCall running_;
  grpc::ServerContext grpc_;
  grpc::ByteBuffer message_;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder_;
  CallTag<InferCall> begin_{&InferCall::on_begin}, finished_{&InferCall::on_finished}, done_{&InferCall::on_done};
  Clock::time_point received_;
  SharedOutputs shared_;
  std::optional<Cancellation> cancellation_;
};

}  // namespace

void accept_infer(CallContext& context, grpc::ServerCompletionQueue& queue) {
  std::make_shared<InferCall>(context, queue)->accept();
}

MessageBytes::MessageBytes(grpc::ByteBuffer& buffer, RequestMemory& memory) {
  struct Held {
    std::shared_ptr<const void> memory;
    grpc::Slice slice;
  };
  const auto held = std::make_shared<Held>();
  if (buffer.Valid()) {
    held->memory = memory.hold(buffer.Length());
    if (!buffer.DumpToSingleSlice(&held->slice).ok())
      throw ServerError(StatusCode::invalid_argument, "the request's compressed message cannot be unpacked");
  }
  slice_ = {held, &held->slice};
  owner_ = held;
}

std::vector<std::string> shared_outputs(const Request& request) {
  std::vector<std::string> names;
  for (const RequestedOutput& output : request.outputs)
    if (output.target) names.push_back(output.name);
  return names;
}

}  // namespace camshaft::server
