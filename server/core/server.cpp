#include "server/core/server.h"

#include <algorithm>
#include <utility>

#include "camshaft/system.hpp"
#include "server/core/classification.h"
#include "server/core/cuda_memory.h"

namespace camshaft::server {

Server::Server(ServerOptions options)
    : options_(std::move(options)),
      request_memory_(std::make_shared<RequestMemory>(options_.request_memory)),
      shared_memory_(options_.allow_client_shared_memory),
      trace_(options_.trace),
      models_(options_.models) {}

void Server::stop() {
  stopping_ = true;
  models_.drain(options_.exit_timeout_seconds);
}

bool Server::ready() const {
  return !stopping_ && (!options_.strict_readiness || models_.ready());
}

std::string Server::version() const {
  return camshaft::version();
}

const std::vector<std::string>& Server::extensions() const {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"classification",
                                    "sequence",
                                    "model_repository",
                                    "model_repository(unload_dependents)",
                                    "schedule_policy",
                                    "model_configuration",
                                    "system_shared_memory",
                                    "binary_tensor_data",
                                    "parameters",
                                    "statistics",
                                    "trace",
                                    "logging"};
    if (has_cuda_device()) all.insert(all.begin() + 7, "cuda_shared_memory");
    return all;
  }();
  return names;
}

void Server::infer(Request request, Respond respond) noexcept {
  if (request.timeline.queued == Clock::time_point()) request.timeline.queued = Clock::now();
  std::shared_ptr<Model> model;
  Status status;
  try {
    model = models_.find(request.model, request.version);
    trace_.sample(request);
  } catch (...) {
    status = current_exception_status();
  }
  if (!status.ok()) {
    Response response;
    response.status = std::move(status);
    response.model = request.model;
    response.version = request.version;
    response.id = request.id;
    response.timeline = request.timeline;
    respond(std::move(response));
    return;
  }
  if (!request.trace_id.empty()) {
    Request traced;
    traced.model = request.model;
    traced.version = model->version();
    traced.id = request.id;
    traced.trace_id = request.trace_id;
    respond = [this, traced = std::move(traced), respond = std::move(respond)](Response response) {
      if (response.final) trace_.finished(traced, response.timeline, Clock::now());
      respond(std::move(response));
    };
  }
  const bool classes = std::any_of(request.outputs.begin(), request.outputs.end(),
                                   [](const RequestedOutput& output) { return output.classes > 0; });
  if (classes) {
    respond = [outputs = request.outputs, model, respond = std::move(respond)](Response response) {
      if (response.status.ok()) classify(outputs, *model, response);
      respond(std::move(response));
    };
  }
  if (!request.memory_lost.empty()) {
    respond = [lost = request.memory_lost, respond = std::move(respond)](Response response) {
      if (std::any_of(lost.begin(), lost.end(), [](const auto& flag) { return flag->load(); })) {
        response.status = {StatusCode::invalid_argument,
                           "a region of shared memory became shorter while the request used it: unregister it"};
        response.outputs.clear();
      }
      respond(std::move(response));
    };
  }
  model->infer(std::move(request), std::move(respond));
}

}  // namespace camshaft::server
