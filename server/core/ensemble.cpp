#include "server/core/ensemble.h"

#include <mutex>
#include <utility>

#include "server/core/client_memory.h"
#include "server/core/complete_config.h"
#include "server/core/loaded_model.h"
#include "server/core/pending.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

std::string step_version(const inference::ModelEnsembling::Step& step) {
  return step.model_version() <= 0 ? "" : std::to_string(step.model_version());
}

}  // namespace

/// One request on its way through the steps.
class Ensemble::Flow : public std::enable_shared_from_this<Flow> {
 public:
  Flow(PendingPtr pending, const Ensemble& ensemble, std::vector<std::shared_ptr<Model>> models)
      : pending_(std::move(pending)),
        ensemble_(ensemble),
        models_(std::move(models)),
        started_(models_.size(), false),
        left_(models_.size()) {
    pending_->request.timeline.compute_start = pending_->request.timeline.input_end = Clock::now();
    for (const NamedTensor& input : pending_->request.inputs) tensors_[input.name] = input;
  }

  /// Starts all steps that have what they read.
  void advance() {
    std::vector<std::pair<size_t, Request>> starting;
    {
      const std::lock_guard lock(mutex_);
      if (!pending_) return;  // it failed
      if (pending_->request.cancellation.cancelled()) {
        fail({StatusCode::cancelled, "request is cancelled"});
        return;
      }
      for (size_t s = 0; s < models_.size(); ++s) {
        if (started_[s] || !is_fed(step(s))) continue;
        started_[s] = true;
        starting.emplace_back(s, make_request(s));
      }
    }
    for (auto& [s, request] : starting)
      models_[s]->infer(std::move(request), [flow = shared_from_this(), s = s](Response response) {
        flow->arrived(s, std::move(response));
      });
  }

 private:
  const inference::ModelEnsembling::Step& step(size_t index) const {
    return ensemble_.config_.ensemble_scheduling().step(static_cast<int>(index));
  }

  bool is_fed(const inference::ModelEnsembling::Step& step) const {
    for (const auto& [input, tensor] : step.input_map()) {
      if (tensors_.contains(tensor)) continue;
      bool optional = false;  // an input of the ensemble's that this request does not have
      for (const TensorSpec& spec : ensemble_.signature_.inputs) optional |= spec.name == tensor && spec.optional;
      if (!optional) return false;
    }
    return true;
  }

  Request make_request(size_t index) const {
    const Request& outer = pending_->request;
    Request request;
    request.model = step(index).model_name();
    request.id = outer.id;
    request.parameters = outer.parameters;
    request.sequence = outer.sequence;
    request.sequence_start = outer.sequence_start;
    request.sequence_end = outer.sequence_end;
    request.priority = outer.priority;
    request.timeout_us = outer.timeout_us;
    request.cancellation = outer.cancellation;
    request.timeline.queued = Clock::now();
    for (const auto& [input, tensor] : step(index).input_map()) {
      const auto at = tensors_.find(tensor);
      if (at == tensors_.end()) continue;
      request.inputs.push_back(at->second);
      request.inputs.back().name = input;
    }
    for (const auto& [output, tensor] : step(index).output_map()) request.outputs.push_back({output, 0, {}, nullptr});
    return request;
  }

  void arrived(size_t index, Response response) {
    {
      const std::lock_guard lock(mutex_);
      if (!pending_) return;
      if (!response.status.ok()) {
        fail(response.status);
        return;
      }
      for (NamedTensor& output : response.outputs) {
        const auto at = step(index).output_map().find(output.name);
        if (at == step(index).output_map().end()) continue;
        output.name = at->second;
        tensors_[at->second] = std::move(output);
      }
      if (--left_ == 0) {
        finish();
        return;
      }
    }
    advance();
  }

  void fail(const Status& status) {
    const PendingPtr pending = std::move(pending_);
    pending->fail(status, status.code == StatusCode::cancelled     ? FailureReason::cancelled
                          : status.code == StatusCode::unavailable ? FailureReason::rejected
                                                                   : FailureReason::backend);
  }

  void finish() {
    const PendingPtr pending = std::move(pending_);
    Timeline& timeline = pending->request.timeline;
    timeline.output_start = Clock::now();
    try {
      std::vector<NamedTensor> outputs;
      for (size_t i = 0; i < pending->outputs.size(); ++i) {
        const auto at = tensors_.find(ensemble_.signature_.outputs[pending->outputs[i]].name);
        if (at == tensors_.end()) continue;  // of an optional input that is not there
        NamedTensor& tensor = outputs.emplace_back(at->second);
        tensor.data = on_host(std::move(tensor.data));  // where it is an input, handed through
        if (!pending->request.outputs.empty()) place_output(pending->request.outputs[i], tensor);
      }
      timeline.compute_end = Clock::now();
      const_cast<Ensemble&>(ensemble_).statistics_.executed(timeline, static_cast<uint64_t>(pending->batch));
      pending->succeed(std::move(outputs));
    } catch (...) {
      pending->fail(current_exception_status(), FailureReason::backend);
    }
  }

  std::mutex mutex_;
  PendingPtr pending_;  ///< null: answered
  const Ensemble& ensemble_;
  std::vector<std::shared_ptr<Model>> models_;  ///< of the steps, as they were when the request came
  std::map<std::string, NamedTensor> tensors_;
  std::vector<bool> started_;
  size_t left_;
};

Ensemble::Ensemble(const ModelManager& models, const std::filesystem::path& folder, int64_t version, ModelConfig config)
    : models_(models), version_(std::to_string(version)), config_(std::move(config)) {
  config_.set_platform("ensemble");
  complete_defaults(config_, inference::ModelInstanceGroup::KIND_CPU, true);
  check_model_config(config_);
  if (config_.input().empty() || config_.output().empty())
    throw ServerError(StatusCode::invalid_argument,
                      "ensemble '" + config_.name() + "': must specify inputs and outputs");
  check_ensemble(models, config_);
  labels_ = read_labels(folder, config_);
  signature_ = make_signature(config_);
}

const std::vector<std::string>& Ensemble::labels(const std::string& output) const {
  const auto own = labels_.find(output);
  if (own != labels_.end()) return own->second;
  static const std::vector<std::string> none;
  return none;
}

void Ensemble::infer(Request request, Respond respond) noexcept {
  request.version = version_;
  PendingPtr pending =
      std::make_unique<Pending>(std::move(request), std::move(respond), statistics_, shared_from_this());
  try {
    check_request(signature_, *pending);
    std::vector<std::shared_ptr<Model>> models;
    for (const auto& step : config_.ensemble_scheduling().step())
      models.push_back(models_.find(step.model_name(), step_version(step)));
    std::make_shared<Flow>(std::move(pending), *this, std::move(models))->advance();
  } catch (...) {
    const Status status = current_exception_status();
    if (pending)
      pending->fail(status, status.code == StatusCode::unavailable ? FailureReason::rejected : FailureReason::other);
  }
}

}  // namespace camshaft::server
