#include "server/grpc/control.h"

#include "server/grpc/control_models.h"
#include "server/grpc/control_settings.h"
#include "server/grpc/grpc_status.h"
#include "server/grpc/workers.h"

namespace camshaft::server {
namespace {

/// What a method is: how the service is asked for it, what answers it, which part of the protocol it belongs to.
template <class Service, class Request, class Response>
struct ControlMethod {
  void (Service::*accept)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                          grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*);
  void (*answer)(Server&, const Request&, Response&);
  Api api;
  bool slow = false;
};

template <class Service, class Request, class Response>
class ControlCall : public std::enable_shared_from_this<ControlCall<Service, Request, Response>> {
 public:
  using Method = ControlMethod<Service, Request, Response>;
  ControlCall(CallContext& context, Service& service, grpc::ServerCompletionQueue& queue, Method method)
      : context_(context), service_(service), queue_(queue), method_(method), responder_(&grpc_) {}

  void accept() {
    (service_.*method_.accept)(&grpc_, &request_, &responder_, &queue_, &queue_,
                               begin_.start(this->shared_from_this()));
  }

 private:
  void on_begin(bool ok) {
    if (!ok) return;  // the server ends
    running_.begin(context_);
    std::make_shared<ControlCall>(context_, service_, queue_, method_)->accept();
    if (const grpc::Status access = context_.access.check(grpc_, method_.api); !access.ok()) return fail(access);
    if (!method_.slow) return answer();
    if (context_.stopping) return fail(stopping_status());
    context_.workers.run([call = this->shared_from_this()] { call->answer(); });
  }

  void answer() {
    Response response;
    try {
      method_.answer(context_.server, request_, response);
    } catch (...) {
      return fail(current_grpc_status());
    }
    responder_.Finish(response, grpc::Status::OK, finished_.start(this->shared_from_this()));
  }
  void fail(const grpc::Status& status) {
    responder_.FinishWithError(status, finished_.start(this->shared_from_this()));
  }
  void on_finished(bool) {}

  CallContext& context_;
  Service& service_;
  grpc::ServerCompletionQueue& queue_;
  const Method method_;
  RunningCall running_;
  grpc::ServerContext grpc_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Response> responder_;
  CallTag<ControlCall> begin_{&ControlCall::on_begin}, finished_{&ControlCall::on_finished};
};

/// `Base` is the generated class that has the method; `service` may be derived from it.
template <class Base, class Service, class Request, class Response>
void accept_one(CallContext& context, Service& service, grpc::ServerCompletionQueue& queue,
                void (Base::*accept)(grpc::ServerContext*, Request*, grpc::ServerAsyncResponseWriter<Response>*,
                                     grpc::CompletionQueue*, grpc::ServerCompletionQueue*, void*),
                void (*answer)(Server&, const Request&, Response&), Api api, bool slow = false) {
  std::make_shared<ControlCall<Service, Request, Response>>(
      context, service, queue, ControlMethod<Service, Request, Response>{accept, answer, api, slow})
      ->accept();
}

}  // namespace

void accept_control(CallContext& context, grpc::ServerCompletionQueue& queue) {
  using S = InferenceService;
  S& service = context.inference;
  const auto method = [&](auto accept, auto answer, Api api, bool slow = false) {
    accept_one(context, service, queue, accept, answer, api, slow);
  };
  accept_one(context, context.health, queue, &HealthService::RequestCheck, answer_health_check, Api::health);
  method(&S::RequestServerLive, answer_server_live, Api::health);
  method(&S::RequestServerReady, answer_server_ready, Api::health);
  method(&S::RequestModelReady, answer_model_ready, Api::health);
  method(&S::RequestServerMetadata, answer_server_metadata, Api::metadata);
  method(&S::RequestModelMetadata, answer_model_metadata, Api::metadata);
  method(&S::RequestModelConfig, answer_model_config, Api::model_config);
  method(&S::RequestModelStatistics, answer_model_statistics, Api::statistics);
  method(&S::RequestRepositoryIndex, answer_repository_index, Api::model_repository);
  method(&S::RequestRepositoryModelLoad, answer_model_load, Api::model_repository, true);
  method(&S::RequestRepositoryModelUnload, answer_model_unload, Api::model_repository, true);
  method(&S::RequestSystemSharedMemoryStatus, answer_memory_status, Api::shared_memory);
  method(&S::RequestSystemSharedMemoryRegister, answer_memory_register, Api::shared_memory);
  method(&S::RequestSystemSharedMemoryUnregister, answer_memory_unregister, Api::shared_memory);
  method(&S::RequestCudaSharedMemoryStatus, answer_cuda_memory_status, Api::shared_memory);
  method(&S::RequestCudaSharedMemoryRegister, answer_cuda_memory_register, Api::shared_memory);
  method(&S::RequestCudaSharedMemoryUnregister, answer_cuda_memory_unregister, Api::shared_memory);
  method(&S::RequestTraceSetting, answer_trace_setting, Api::trace);
  method(&S::RequestLogSettings, answer_log_settings, Api::logging);
}

}  // namespace camshaft::server
