#include <set>

#include "server/core/data_type.h"
#include "server/core/ensemble.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

struct EnsembleTensor {
  inference::DataType type = inference::TYPE_INVALID;
  Dims dims;         ///< with the axis of the batch
  std::string from;  ///< for messages
};

template <class Tensor>
EnsembleTensor describe(const ModelConfig& config, const Tensor& tensor) {
  EnsembleTensor described{tensor.data_type(),
                           {tensor.dims().begin(), tensor.dims().end()},
                           "model '" + config.name() + "', tensor '" + tensor.name() + "'"};
  if (config.max_batch_size() > 0) described.dims.insert(described.dims.begin(), -1);
  return described;
}

bool dims_agree(const Dims& a, const Dims& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] >= 0 && b[i] >= 0 && a[i] != b[i]) return false;
  return true;
}

class EnsembleCheck {
 public:
  EnsembleCheck(const ModelManager& models, const ModelConfig& config) : models_(models), config_(config) {}

  void run() {
    if (config_.ensemble_scheduling().step().empty()) refuse("must specify at least one step");
    if (config_.instance_group_size() > 0) refuse("an ensemble has no instance_group");
    for (const auto& input : config_.input()) add(input.name(), describe(config_, input));
    std::set<int> waiting;
    for (int s = 0; s < config_.ensemble_scheduling().step_size(); ++s) waiting.insert(s);
    // Steps in an order in which they can run; those that are left wait for each other, or for what nothing makes.
    for (bool moved = true; moved && !waiting.empty();) {
      moved = false;
      for (auto at = waiting.begin(); at != waiting.end();) {
        const auto& step = config_.ensemble_scheduling().step(*at);
        bool is_fed = true;
        for (const auto& [input, tensor] : step.input_map()) is_fed &= tensors_.contains(tensor);
        if (!is_fed) {
          ++at;
          continue;
        }
        check_step(step);
        at = waiting.erase(at);
        moved = true;
      }
    }
    if (!waiting.empty()) name_what_waits(config_.ensemble_scheduling().step(*waiting.begin()));
    for (const auto& output : config_.output()) {
      const auto at = tensors_.find(output.name());
      if (at == tensors_.end()) refuse("no step makes its output '" + output.name() + "'");
      compare(at->second, describe(config_, output));
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw ServerError(StatusCode::invalid_argument, "ensemble '" + config_.name() + "': " + message);
  }

  void add(const std::string& name, EnsembleTensor tensor) {
    if (!tensors_.emplace(name, std::move(tensor)).second)
      refuse("two steps, or a step and an input, make the tensor '" + name + "'");
  }

  void compare(const EnsembleTensor& made, const EnsembleTensor& read) const {
    if (made.type != read.type)
      refuse("inconsistent data type: " + made.from + " is " + inference::DataType_Name(made.type) + ", " + read.from +
             " is " + inference::DataType_Name(read.type));
    if (!dims_agree(made.dims, read.dims))
      refuse("inconsistent shape: " + made.from + " has " + shape_text(made.dims) + ", " + read.from + " has " +
             shape_text(read.dims));
  }

  void check_step(const inference::ModelEnsembling::Step& step) {
    const std::string version = step.model_version() < 0 ? "" : std::to_string(step.model_version());
    const std::shared_ptr<Model> model = models_.find(step.model_name(), version == "0" ? "" : version);
    const ModelConfig& config = model->config();
    if (config.model_transaction_policy().decoupled())
      refuse("its step '" + config.name() + "' is decoupled: an ensemble has one response");
    if (config_.max_batch_size() > 0 && config.max_batch_size() < config_.max_batch_size())
      refuse("max_batch_size " + std::to_string(config_.max_batch_size()) + " is more than that of its step '" +
             config.name() + "', " + std::to_string(config.max_batch_size()));
    std::set<std::string> fed;
    for (const auto& input : config.input()) {
      const auto at = step.input_map().find(input.name());
      if (at == step.input_map().end()) {
        if (!input.optional())
          refuse("nothing is mapped to input '" + input.name() + "' of its step '" + config.name() + "'");
        continue;
      }
      fed.insert(input.name());
      compare(tensors_.at(at->second), describe(config, input));
    }
    for (const auto& [input, tensor] : step.input_map())
      if (!fed.contains(input)) refuse("its step '" + config.name() + "' has no input '" + input + "'");
    for (const auto& [name, tensor] : step.output_map()) {
      bool found = false;
      for (const auto& output : config.output()) {
        if (output.name() != name) continue;
        add(tensor, describe(config, output));
        found = true;
      }
      if (!found) refuse("its step '" + config.name() + "' has no output '" + name + "'");
    }
    if (step.output_map().empty()) refuse("its step '" + config.name() + "' maps no output");
  }

  [[noreturn]] void name_what_waits(const inference::ModelEnsembling::Step& step) const {
    for (const auto& [input, tensor] : step.input_map())
      if (!tensors_.contains(tensor))
        refuse("input '" + input + "' of its step '" + step.model_name() + "' is mapped to '" + tensor +
               "', which no input and no step before makes: steps may wait for each other in a circle");
    refuse("its step '" + step.model_name() + "' cannot run");
  }

  const ModelManager& models_;
  const ModelConfig& config_;
  std::map<std::string, EnsembleTensor> tensors_;
};

}  // namespace

void check_ensemble(const ModelManager& models, const ModelConfig& config) {
  EnsembleCheck(models, config).run();
}

}  // namespace camshaft::server
