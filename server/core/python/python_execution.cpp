// The part of PythonInstance that has to do with requests.
#include <algorithm>

#include "server/core/client_memory.h"
#include "server/core/data_type.h"
#include "server/core/python/python_instance.h"
#include "server/core/status.h"

namespace camshaft::server {
namespace {

using nlohmann::json;

/// `reshape` of a whole shape, whose first axis is the batch's where there is one.
template <class Reshape>
std::vector<int64_t> reshaped(bool batched, const std::vector<int64_t>& shape, Reshape reshape) {
  if (!batched || shape.empty()) return reshape(shape);
  std::vector<int64_t> made = reshape(std::vector<int64_t>(shape.begin() + 1, shape.end()));
  made.insert(made.begin(), shape.front());
  return made;
}

}  // namespace

void PythonInstance::run(std::vector<PendingPtr> batch) noexcept {
  Timeline timeline;
  timeline.compute_start = Clock::now();
  try {
    while (!hand_over(batch, timeline)) {  // the process ended meanwhile
    }
  } catch (...) {
    const Status status = current_exception_status();
    for (PendingPtr& pending : batch)
      if (pending) pending->fail(status, FailureReason::backend);
  }
}

// Gives the batch to the process and waits until it has returned from execute(). False: it is to be given to another.
bool PythonInstance::hand_over(std::vector<PendingPtr>& batch, const Timeline& timeline) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return state_ != State::starting; });
  if (state_ == State::failed) throw ServerError(StatusCode::unavailable, failure_);
  const std::shared_ptr<PythonLink> link = link_;
  const uint64_t generation = generation_, first = next_;
  if (!link) return lock.unlock(), std::this_thread::yield(), false;  // its end is being noticed
  next_ += batch.size();
  lock.unlock();

  // While the requests are this thread's still: those that the supervisor has, it may answer at any time.
  json message = {{"op", "execute"}, {"requests", json::array()}};
  try {
    for (size_t i = 0; i < batch.size(); ++i) message["requests"].push_back(describe(*link, *batch[i], first + i));
  } catch (...) {
    for (const json& request : message["requests"]) link->take_back(request.at("inputs"));
    throw;
  }

  lock.lock();
  if (generation != generation_ || link_ != link) return false;
  elements_ = 0;
  counted_ = &batch.front()->statistics() == &statistics_;
  timeline_ = timeline;
  timeline_.input_end = Clock::now();
  for (size_t i = 0; i < batch.size(); ++i) {
    elements_ += static_cast<uint64_t>(batch[i]->batch);
    batch[i]->request.timeline.compute_start = timeline.compute_start;
    batch[i]->request.timeline.input_end = timeline_.input_end;
    executing_.push_back(first + i);
    taken_.emplace(first + i, std::move(batch[i]));
  }
  runs_ = true;
  progress_ = timeline_.input_end;
  const bool retired = retired_;
  lock.unlock();
  if (retired) link->wake();  // its end is waited for, from now on
  try {
    link->send(message);
  } catch (const ServerError&) {  // the supervisor notices that, too, and answers
  }
  lock.lock();
  changed_.wait(lock, [&] { return !runs_ || generation_ != generation; });
  return true;
}

json PythonInstance::describe(PythonLink& link, const Pending& pending, uint64_t number) const {
  const Request& request = pending.request;
  json described = {{"n", number},
                    {"model", model_->name},
                    {"version", request.version},
                    {"id", request.id},
                    {"flags", (request.sequence_start ? 1 : 0) | (request.sequence_end ? 2 : 0)},
                    {"timeout", request.timeout_us},
                    {"priority", request.priority},
                    {"parameters", json_of(request.parameters).dump()},
                    {"inputs", json::array()},
                    {"outputs", json::array()}};
  if (request.sequence.text.empty())
    described["sequence"] = request.sequence.number;
  else
    described["sequence"] = request.sequence.text;
  for (const size_t output : pending.outputs) described["outputs"].push_back(signature_.output(output).name);
  try {
    for (size_t place = 0; place < pending.inputs.size(); ++place) {
      const NamedTensor* tensor = pending.inputs[place];
      if (tensor == nullptr) continue;  // optional
      const TensorSpec& spec = signature_.input(place);
      described["inputs"].push_back(link.put(*tensor, reshaped(signature_.max_batch > 0, tensor->shape,
                                                               [&](auto dims) { return model_shape(spec, dims); })));
    }
  } catch (...) {
    link.take_back(described["inputs"]);
    throw;
  }
  return described;
}

void PythonInstance::executed(PythonLink& link, const json& message) {
  {
    const std::lock_guard lock(mutex_);
    timeline_.output_start = Clock::now();
  }
  for (const json& described : message.at("responses")) answer(link, described);
  reschedule(message.at("rescheduled"));  // while run() waits, as its caller looks then what has come back
  std::vector<PendingPtr> failed;
  {
    const std::lock_guard lock(mutex_);
    timeline_.compute_end = Clock::now();
    if (counted_) statistics_.executed(timeline_, elements_);
    if (!message.at("error").is_null()) {
      for (const uint64_t number : executing_)
        if (const auto node = taken_.extract(number)) failed.push_back(std::move(node.mapped()));
    }
    executing_.clear();
    runs_ = false;
  }
  changed_.notify_all();
  for (const PendingPtr& pending : failed) {
    pending->fail({StatusCode::internal, "Failed to process the request(s) for model '" + model_->name +
                                             "', message: " + message.at("error").get<std::string>()},
                  FailureReason::backend);
  }
}

// A request that was answered already is passed over: its memory is freed, and the rest is the model's mistake.
void PythonInstance::answer(PythonLink& link, const json& described) {
  const auto number = described.at("n").get<uint64_t>();
  const bool final = described.at("final").get<bool>();
  Pending* pending = nullptr;
  PendingPtr last;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = taken_.find(number); found != taken_.end()) {
      pending = found->second.get();
      pending->request.timeline.output_start = progress_ = Clock::now();
      if (final) {
        last = std::move(found->second);
        taken_.erase(found);
      }
    }
  }
  if (pending == nullptr) {
    for (const json& tensor : described.at("outputs")) link.get(tensor);
    return;
  }
  Response response;
  try {
    response = response_of(link, *pending, described);
  } catch (...) {
    response.status = current_exception_status();
  }
  response.final = final;
  pending->request.timeline.compute_end = Clock::now();
  pending->respond(std::move(response));
}

// Requests that the model wants to run once more.
void PythonInstance::reschedule(const json& numbers) {
  for (const json& number : numbers) {
    PendingPtr pending;
    {
      const std::lock_guard lock(mutex_);
      if (auto node = taken_.extract(number.get<uint64_t>())) pending = std::move(node.mapped());
    }
    if (!pending) continue;  // it had its final response already
    if (!pending->reschedule) {
      pending->fail(
          {StatusCode::invalid_argument,
           "Request is released with TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, which the scheduler of model '" +
               model_->name + "' does not know: set sequence_batching { iterative_sequence: true }"},
          FailureReason::backend);
      continue;
    }
    const auto give_back = pending->reschedule;
    give_back(std::move(pending));
  }
}

Response PythonInstance::response_of(PythonLink& link, const Pending& pending, const json& described) const {
  Response response;
  response.empty = described.at("empty").get<bool>();
  std::vector<NamedTensor> tensors;
  for (const json& tensor : described.at("outputs")) tensors.push_back(link.get(tensor));
  if (const json& error = described.at("error"); !error.is_null()) {
    response.status = {status_code_of(error.at(0).get<int>()), error.at(1).get<std::string>()};
    return response;
  }
  if (described.contains("parameters")) response.parameters = parameters_of(described.at("parameters"));
  const auto take = [&](size_t place) -> std::optional<NamedTensor> {
    const TensorSpec& spec = signature_.output(place);
    const auto found = std::ranges::find(tensors, spec.name, &NamedTensor::name);
    if (found == tensors.end()) return std::nullopt;
    if (found->dtype != spec.dtype) {
      throw ServerError(StatusCode::internal, "model '" + model_->name + "' gave output '" + spec.name + "' as " +
                                                  std::string(protocol_name(found->dtype)) +
                                                  ", its configuration says " + std::string(protocol_name(spec.dtype)));
    }
    found->shape =
        reshaped(signature_.max_batch > 0, found->shape, [&](auto dims) { return client_shape(spec, dims); });
    return *found;
  };
  for (size_t i = 0; i < pending.outputs.size(); ++i) {
    std::optional<NamedTensor> tensor = take(pending.outputs[i]);
    if (!tensor) continue;  // a model may leave outputs out
    if (!pending.request.outputs.empty()) place_output(pending.request.outputs[i], *tensor);
    response.outputs.push_back(std::move(*tensor));
  }
  for (size_t i = 0; pending.keep && i < signature_.kept.size(); ++i)
    if (std::optional<NamedTensor> tensor = take(signature_.outputs.size() + i)) pending.keep(i, std::move(*tensor));
  return response;
}

}  // namespace camshaft::server
