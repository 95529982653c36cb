#include "server/core/complete_config.h"

#include <algorithm>
#include <set>
#include <string>

#include "server/core/data_type.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

[[noreturn]] void refuse_config(const ModelConfig& config, const std::string& message) {
  throw ServerError(StatusCode::invalid_argument, "model '" + config.name() + "': " + message);
}

bool has_batch_axis(const TensorInfo& info) {
  return !info.dims.empty() && info.dims.front() < 0;
}

bool can_batch(const ModelFacts& facts) {
  return !facts.inputs.empty() && std::all_of(facts.inputs.begin(), facts.inputs.end(), has_batch_axis) &&
         std::all_of(facts.outputs.begin(), facts.outputs.end(), has_batch_axis);
}

const TensorInfo* find_info(const std::vector<TensorInfo>& infos, const std::string& name) {
  for (const TensorInfo& info : infos)
    if (info.name == name) return &info;
  return nullptr;
}

// Whether dims of the configuration speak against an axis of the batch: they have all the model's axes.
template <class Tensors>
bool names_all_axes(const Tensors& tensors, const std::vector<TensorInfo>& infos) {
  for (const auto& tensor : tensors) {
    const TensorInfo* info = find_info(infos, tensor.name());
    const int rank = tensor.has_reshape() ? tensor.reshape().shape_size() : tensor.dims_size();
    if (info != nullptr && tensor.dims_size() > 0 && rank == static_cast<int>(info->dims.size())) return true;
  }
  return false;
}

void complete_batch(ModelConfig& config, const ModelFacts& facts, bool strict) {
  if (config.max_batch_size() < 0) refuse_config(config, "max_batch_size must be 0 or more");
  if (config.max_batch_size() == 0) {
    if (strict || !can_batch(facts) || names_all_axes(config.input(), facts.inputs) ||
        names_all_axes(config.output(), facts.outputs))
      return;
    config.set_max_batch_size(static_cast<int32_t>(
        std::min<int64_t>(facts.most_batch.value_or(facts.default_batch), std::numeric_limits<int32_t>::max())));
    return;
  }
  if (facts.most_batch && config.max_batch_size() > *facts.most_batch)
    refuse_config(config, "max_batch_size is " + std::to_string(config.max_batch_size()) +
                              ", but the engine's profiles go to " + std::to_string(*facts.most_batch));
  for (const auto* infos : {&facts.inputs, &facts.outputs})
    for (const TensorInfo& info : *infos)
      if (!has_batch_axis(info))
        refuse_config(config, "max_batch_size is " + std::to_string(config.max_batch_size()) + ", but tensor '" +
                                  info.name + "' of shape " + shape_text(info.dims) +
                                  " has no dynamic first axis: export the model with one, or set max_batch_size to 0");
}

// The sizes that a configuration is to have.
Dims config_dims(const ModelConfig& config, const TensorInfo& info) {
  return {info.dims.begin() + (config.max_batch_size() > 0 ? 1 : 0), info.dims.end()};
}

// Whether the model has elements of all requests in one row, whose shapes the configuration's are not.
bool is_in_a_row(const ModelConfig& /*config*/, const inference::ModelInput& input) {
  return input.allow_ragged_batch();
}
bool is_in_a_row(const ModelConfig& config, const inference::ModelOutput& output) {
  for (const inference::BatchOutput& scattered : config.batch_output())
    for (const std::string& target : scattered.target_name())
      if (target == output.name()) return true;
  return false;
}

template <class Tensor>
void complete_tensor(const ModelConfig& config, const TensorInfo& info, Tensor& tensor, bool strict) {
  inference::DataType type = inference::TYPE_INVALID;
  inference::DataType_Parse(std::string(config_name(info.dtype)), &type);
  if (tensor.data_type() == inference::TYPE_INVALID) {
    if (strict) refuse_config(config, "tensor '" + info.name + "' has no data_type");
    tensor.set_data_type(type);
  } else if (tensor.data_type() != type) {
    refuse_config(config, "tensor '" + info.name + "': the model has data-type " +
                              std::string(config_name(info.dtype)) + ", the configuration " +
                              inference::DataType_Name(tensor.data_type()));
  }
  if (is_in_a_row(config, tensor)) {
    if (info.dims.size() != 1 || info.dims.front() >= 0)
      refuse_config(
          config,
          "tensor '" + info.name + "' has the shape " + shape_text(info.dims) +
              " in the model: with allow_ragged_batch, or in batch_output, it must be one row of any length, [-1]");
    if (tensor.dims_size() == 0 && !tensor.has_reshape()) tensor.add_dims(-1);
    return;
  }
  const Dims expected = config_dims(config, info);
  if (tensor.dims_size() == 0 && !tensor.has_reshape()) {
    tensor.mutable_dims()->Assign(expected.begin(), expected.end());
    return;
  }
  const auto& sizes = tensor.has_reshape() ? tensor.reshape().shape() : tensor.dims();
  const Dims given(sizes.begin(), sizes.end());
  bool fits = given.size() == expected.size();
  for (size_t i = 0; fits && i < given.size(); ++i) fits = expected[i] < 0 || given[i] == expected[i];
  if (!fits)
    refuse_config(config, "tensor '" + info.name + "': the model has the shape " + shape_text(info.dims) +
                              ", the configuration " + shape_text(given) +
                              (config.max_batch_size() > 0 ? " behind the axis of the batch, as max_batch_size is " +
                                                                 std::to_string(config.max_batch_size())
                                                           : ""));
}

// Inputs that the server makes of batches.
std::set<std::string> names_of_batch_inputs(const ModelConfig& config, const ModelFacts& facts) {
  std::set<std::string> names;
  for (const inference::BatchInput& input : config.batch_input())
    for (const std::string& target : input.target_name()) {
      const TensorInfo* info = find_info(facts.inputs, target);
      if (info == nullptr) refuse_config(config, "batch_input: the model has no input '" + target + "'");
      if (config_name(info->dtype) != inference::DataType_Name(input.data_type()))
        refuse_config(config, "batch_input '" + target + "': the model has data-type " +
                                  std::string(config_name(info->dtype)) + ", the configuration " +
                                  inference::DataType_Name(input.data_type()));
      const size_t rank = input.kind() == inference::BatchInput::BATCH_ITEM_SHAPE ? 2 : 1;
      if (info->dims.size() != rank)
        refuse_config(config, "batch_input '" + target + "' of kind " + inference::BatchInput::Kind_Name(input.kind()) +
                                  " has " + std::to_string(rank) + (rank == 1 ? " axis" : " axes") +
                                  ", the model's input has the shape " + shape_text(info->dims));
      if (!names.insert(target).second) refuse_config(config, "batch_input '" + target + "' is named twice");
    }
  return names;
}

// Inputs that sequences' controls and states feed.
std::set<std::string> names_of_sequence(const ModelConfig& config, bool inputs) {
  std::set<std::string> names;
  for (const auto& state : config.sequence_batching().state())
    names.insert(inputs ? state.input_name() : state.output_name());
  if (inputs)
    for (const auto& control : config.sequence_batching().control_input()) names.insert(control.name());
  return names;
}

template <class Tensors>
void check_names(const ModelConfig& config, const Tensors& tensors, const std::vector<TensorInfo>& infos,
                 const char* what) {
  std::set<std::string> seen;
  for (const auto& tensor : tensors) {
    if (!seen.insert(tensor.name()).second)
      refuse_config(config, std::string(what) + " '" + tensor.name() + "' is named twice");
    if (find_info(infos, tensor.name()) != nullptr) continue;
    std::string known;
    for (const TensorInfo& info : infos) known.append(known.empty() ? "'" : ", '").append(info.name).append("'");
    refuse_config(config, "unexpected inference " + std::string(what) + " '" + tensor.name() + "', allowed " + what +
                              "s are: " + known);
  }
}

}  // namespace

void complete_tensors(ModelConfig& config, const ModelFacts& facts, bool strict) {
  std::set<std::string> added = names_of_sequence(config, true);
  added.merge(names_of_batch_inputs(config, facts));
  const std::set<std::string> kept = names_of_sequence(config, false);
  check_names(config, config.input(), facts.inputs, "input");
  check_names(config, config.output(), facts.outputs, "output");
  if (strict && (config.input().empty() || config.output().empty()))
    refuse_config(config, "must specify at least one input and output (--strict-model-config)");
  complete_batch(config, facts, strict);
  const bool add_inputs = config.input().empty(), add_outputs = config.output().empty();
  for (const TensorInfo& info : facts.inputs) {
    if (added.contains(info.name)) continue;
    const auto at = std::find_if(config.mutable_input()->begin(), config.mutable_input()->end(),
                                 [&](const auto& input) { return input.name() == info.name; });
    if (at == config.mutable_input()->end() && !add_inputs)
      refuse_config(config, "the model has an input '" + info.name + "' that the configuration does not name");
    inference::ModelInput& input = at == config.mutable_input()->end() ? *config.add_input() : *at;
    input.set_name(info.name);
    complete_tensor(config, info, input, strict);
  }
  for (const TensorInfo& info : facts.outputs) {
    if (kept.contains(info.name)) continue;
    const auto at = std::find_if(config.mutable_output()->begin(), config.mutable_output()->end(),
                                 [&](const auto& output) { return output.name() == info.name; });
    if (at == config.mutable_output()->end() && !add_outputs) continue;
    inference::ModelOutput& output = at == config.mutable_output()->end() ? *config.add_output() : *at;
    output.set_name(info.name);
    complete_tensor(config, info, output, strict);
  }
}

void complete_defaults(ModelConfig& config, inference::ModelInstanceGroup::Kind kind, bool strict) {
  if (config.version_policy().policy_choice_case() == inference::ModelVersionPolicy::POLICY_CHOICE_NOT_SET)
    config.mutable_version_policy()->mutable_latest()->set_num_versions(1);
  if (!strict && config.max_batch_size() > 1 &&
      config.scheduling_choice_case() == ModelConfig::SCHEDULING_CHOICE_NOT_SET)
    config.mutable_dynamic_batching();
  if (config.has_ensemble_scheduling()) return;
  if (config.instance_group().empty()) config.add_instance_group();
  int index = 0;
  for (inference::ModelInstanceGroup& group : *config.mutable_instance_group()) {
    if (group.name().empty()) group.set_name(config.name() + "_" + std::to_string(index));
    if (group.kind() == inference::ModelInstanceGroup::KIND_AUTO)
      group.set_kind(group.gpus().empty() ? kind : inference::ModelInstanceGroup::KIND_GPU);
    if (group.count() == 0) group.set_count(1);
    ++index;
  }
}

}  // namespace camshaft::server
