#include "server/core/pending.h"

#include <utility>

namespace camshaft::server {

Pending::~Pending() {
  if (!answered()) fail({StatusCode::internal, "the request was given up without an answer"}, FailureReason::other);
}

void Pending::hand_over(Response response) {
  response.id = request.id;
  response.timeline = request.timeline;
  if (response.final) {
    const Respond respond = std::exchange(respond_, nullptr);
    respond(std::move(response));
  } else {
    respond_(std::move(response));
  }
}

void Pending::succeed(std::vector<NamedTensor> outputs, Parameters parameters) {
  Response response;
  response.outputs = std::move(outputs);
  response.parameters = std::move(parameters);
  respond(std::move(response));
}

void Pending::fail(const Status& status, FailureReason reason) {
  statistics_->request_failed(request.timeline, Clock::now(), reason);
  Response response;
  response.status = status;
  hand_over(std::move(response));
}

void Pending::respond(Response response) {
  response.model = request.model;
  response.version = request.version;
  if (response.status.ok() && !std::exchange(responded_, true))
    statistics_->first_response(request.timeline, Clock::now());
  if (response.final) {
    if (response.status.ok())
      statistics_->request_succeeded(request.timeline, Clock::now(), static_cast<uint64_t>(batch));
    else
      statistics_->request_failed(request.timeline, Clock::now(), FailureReason::backend);
  }
  hand_over(std::move(response));
}

}  // namespace camshaft::server
