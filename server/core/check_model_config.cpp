#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "server/core/log.h"
#include "server/core/model_config.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

// More instances than a machine has use for; each is a thread and memory.
constexpr int32_t most_instances = 1024;
// Messages of gRPC end at 2 GiB.
constexpr int64_t most_warm_up_elements = int64_t{1} << 31;

class ConfigCheck {
 public:
  explicit ConfigCheck(const ModelConfig& config) : config_(config) {}

  void run() const {
    if (config_.max_batch_size() < 0) refuse("max_batch_size must be 0 or more");
    check_tensors();
    check_groups();
    check_versions();
    if (config_.has_sequence_batching()) check_sequences();
    check_warm_up();
    name_what_is_ignored();
  }

 private:
  [[noreturn]] void refuse(const std::string& message) const {
    throw ServerError(StatusCode::invalid_argument, "model '" + config_.name() + "': " + message);
  }

  template <class Tensors>
  void check_dims(const Tensors& tensors, const char* what) const {
    std::set<std::string> names;
    for (const auto& tensor : tensors) {
      if (tensor.name().empty()) refuse(std::string(what) + " must specify 'name'");
      if (!names.insert(tensor.name()).second) refuse(std::string(what) + " '" + tensor.name() + "' is named twice");
      if (tensor.data_type() == inference::TYPE_INVALID)
        refuse(std::string(what) + " '" + tensor.name() + "' must specify 'data_type'");
      for (const int64_t size : tensor.dims())
        if (size < -1) refuse(std::string(what) + " '" + tensor.name() + "' dimension must be integer >= 0, or -1");
    }
  }

  template <class Tensors>
  static bool has_tensor(const Tensors& tensors, const std::string& name) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const auto& tensor) { return tensor.name() == name; });
  }

  template <class Names>
  void check_source(const std::string& what, const Names& sources) const {
    if (sources.size() != 1) refuse(what + " expects 1 source input, got " + std::to_string(sources.size()));
    if (!has_tensor(config_.input(), sources[0])) refuse(what + " has unknown source input name '" + sources[0] + "'");
  }

  void check_tensors() const {
    check_dims(config_.input(), "model input");
    check_dims(config_.output(), "model output");
    for (const inference::BatchInput& input : config_.batch_input()) {
      if (!inference::BatchInput::Kind_IsValid(input.kind()))
        refuse("batch input has the unknown kind " + std::to_string(static_cast<int>(input.kind())));
      const std::string kind = inference::BatchInput::Kind_Name(input.kind());
      check_source("batch input kind '" + kind + "'", input.source_input());
      if (input.target_name().empty()) refuse("batch input kind '" + kind + "' has no target_name");
      if (input.data_type() != inference::TYPE_INT32 && input.data_type() != inference::TYPE_INT64 &&
          input.data_type() != inference::TYPE_FP32)
        refuse("batch input data type must be TYPE_INT32, TYPE_INT64 or TYPE_FP32, '" + input.target_name(0) +
               "' has " + inference::DataType_Name(input.data_type()));
      for (const std::string& target : input.target_name())
        if (has_tensor(config_.input(), target)) refuse("batch input '" + target + "' is an input of requests, too");
    }
    for (const inference::BatchOutput& output : config_.batch_output()) {
      if (!inference::BatchOutput::Kind_IsValid(output.kind()))
        refuse("batch output has the unknown kind " + std::to_string(static_cast<int>(output.kind())));
      check_source("batch output kind '" + inference::BatchOutput::Kind_Name(output.kind()) + "'",
                   output.source_input());
      for (const std::string& target : output.target_name())
        if (!has_tensor(config_.output(), target)) refuse("unknown batch output name '" + target + "'");
    }
  }

  void check_groups() const {
    for (const auto& group : config_.instance_group()) {
      if (group.count() < 0 || group.count() > most_instances)
        refuse("instance group '" + group.name() + "' has count " + std::to_string(group.count()) +
               ": it must be 1 to " + std::to_string(most_instances));
      if (group.kind() == inference::ModelInstanceGroup::KIND_CPU && !group.gpus().empty())
        refuse("instance group '" + group.name() + "' has kind KIND_CPU but specifies one or more GPUs");
      for (const int32_t gpu : group.gpus())
        if (gpu < 0) refuse("instance group '" + group.name() + "' names the GPU " + std::to_string(gpu));
    }
  }

  void check_versions() const {
    const auto& policy = config_.version_policy();
    if (policy.has_latest() && policy.latest().num_versions() == 0)
      refuse("version_policy latest needs num_versions of 1 or more");
    if (policy.has_specific() && policy.specific().versions().empty())
      refuse("version_policy specific names no versions");
  }

  void check_sequences() const {
    using Control = inference::ModelSequenceBatching::Control;
    std::set<Control::Kind> kinds;
    for (const auto& input : config_.sequence_batching().control_input()) {
      if (input.name().empty()) refuse("sequence batching control tensor must have a name");
      for (const Control& control : input.control()) {
        if (!kinds.insert(control.kind()).second)
          refuse("sequence batching specifies multiple " + Control::Kind_Name(control.kind()) + " tensors");
        const int given = (control.int32_false_true_size() > 0) + (control.fp32_false_true_size() > 0) +
                          (control.bool_false_true_size() > 0);
        const bool has_pair = control.int32_false_true_size() == 2 || control.fp32_false_true_size() == 2 ||
                              control.bool_false_true_size() == 2;
        if (control.kind() != Control::CONTROL_SEQUENCE_CORRID && (given != 1 || !has_pair))
          refuse("sequence batching control '" + input.name() +
                 "' must have one of int32_false_true, fp32_false_true and bool_false_true, with 2 entries");
        if (control.kind() == Control::CONTROL_SEQUENCE_CORRID && control.data_type() != inference::TYPE_UINT64 &&
            control.data_type() != inference::TYPE_INT64 && control.data_type() != inference::TYPE_UINT32 &&
            control.data_type() != inference::TYPE_INT32 && control.data_type() != inference::TYPE_STRING)
          refuse(
              "unexpected data type for control CONTROL_SEQUENCE_CORRID: it must be TYPE_UINT64, TYPE_INT64, "
              "TYPE_UINT32, TYPE_INT32 or TYPE_STRING");
      }
      if (input.control_size() != 1)
        refuse("sequence batching control tensor '" + input.name() + "' must have exactly one control");
    }
    const float utilization = config_.sequence_batching().direct().minimum_slot_utilization();
    if (!(utilization >= 0 && utilization <= 1))
      refuse("sequence batching direct has minimum_slot_utilization " + std::to_string(utilization) +
             ": it must be 0 to 1");
    for (const auto& state : config_.sequence_batching().state()) {
      if (state.input_name().empty() || state.output_name().empty())
        refuse("a sequence's state needs input_name and output_name");
      if (state.initial_state_size() > 1) refuse("state '" + state.input_name() + "' has several initial states");
    }
  }

  void check_warm_up() const {
    for (const auto& sample : config_.model_warmup()) {
      if (sample.batch_size() > static_cast<uint32_t>(std::max(1, config_.max_batch_size())))
        refuse("warm-up '" + sample.name() + "' has batch_size " + std::to_string(sample.batch_size()) +
               " beyond max_batch_size");
      for (const auto& [name, input] : sample.inputs()) check_warm_up_input(sample, name, input);
    }
  }

  void check_warm_up_input(const inference::ModelWarmup& sample, const std::string& name,
                           const inference::ModelWarmup::Input& input) const {
    const std::string where = "warm-up '" + sample.name() + "', input '" + name + "' ";
    if (input.data_type() == inference::TYPE_INVALID) refuse(where + "must specify 'data_type'");
    int64_t elements = std::max<int64_t>(1, sample.batch_size());
    for (const int64_t size : input.dims()) {
      if (size < 0) refuse(where + "has the size " + std::to_string(size) + ": warm-ups say all sizes");
      if (size > 0 && elements > most_warm_up_elements / size)
        refuse(where + "has more elements than a request may have");
      elements *= size;
    }
  }

  // In one line, at each load: a file that worked elsewhere is not refused for what makes no difference.
  void name_what_is_ignored() const {
    std::string names;
    const auto add = [&](bool set, const char* name) {
      if (set && names.find(name) == names.npos) names.append(names.empty() ? "" : ", ").append(name);
    };
    add(config_.backend() == "python" && config_.batch_input_size() + config_.batch_output_size() > 0,
        "batch_input, batch_output (a model in Python gets requests, not batches)");
    add(config_.optimization().has_graph(), "optimization.graph");
    add(config_.optimization().has_cuda(), "optimization.cuda");
    add(config_.optimization().priority() != inference::ModelOptimizationPolicy::PRIORITY_DEFAULT,
        "optimization.priority");
    add(config_.optimization().has_input_pinned_memory() || config_.optimization().has_output_pinned_memory(),
        "optimization.*_pinned_memory");
    add(config_.optimization().gather_kernel_buffer_threshold() > 0, "optimization.gather_kernel_buffer_threshold");
    add(config_.optimization().eager_batching(), "optimization.eager_batching");
    add(config_.optimization().execution_accelerators().cpu_execution_accelerator_size() > 0,
        "optimization.execution_accelerators.cpu_execution_accelerator");
    add(!config_.cc_model_filenames().empty(), "cc_model_filenames");
    add(!config_.runtime().empty(), "runtime");
    add(config_.model_operations().op_library_filename_size() > 0, "model_operations");
    add(config_.model_repository_agents().agents_size() > 0, "model_repository_agents");
    add(config_.model_metrics().metric_control_size() > 0, "model_metrics");
    for (const auto& input : config_.input()) {
      add(input.format() != inference::ModelInput::FORMAT_NONE, "input.format");
      add(input.is_shape_tensor(), "input.is_shape_tensor");
      add(input.is_non_linear_format_io(), "input.is_non_linear_format_io");
    }
    for (const auto& output : config_.output()) {
      add(output.is_shape_tensor(), "output.is_shape_tensor");
      add(output.is_non_linear_format_io(), "output.is_non_linear_format_io");
    }
    for (const auto& accelerator : config_.optimization().execution_accelerators().gpu_execution_accelerator())
      add(accelerator.name() != "tensorrt", "optimization.execution_accelerators.gpu_execution_accelerator");
    for (const auto& state : config_.sequence_batching().state())
      add(state.use_same_buffer_for_input_output() || state.use_growable_memory(), "sequence_batching.state.use_*");
    add(config_.sequence_batching().oldest().preserve_ordering(), "sequence_batching.oldest.preserve_ordering");
    const bool cannot_be_kept = config_.has_sequence_batching() || config_.model_transaction_policy().decoupled();
    add(config_.response_cache().enable() && cannot_be_kept,
        "response_cache (of sequences and of decoupled models nothing is kept)");
    for (const auto& step : config_.ensemble_scheduling().step())
      add(!step.model_namespace().empty(), "ensemble_scheduling.step.model_namespace");
    add(config_.ensemble_scheduling().max_inflight_requests() > 0, "ensemble_scheduling.max_inflight_requests");
    for (const auto& group : config_.instance_group()) {
      add(!group.host_policy().empty(), "instance_group.host_policy");
      add(group.secondary_devices_size() > 0, "instance_group.secondary_devices");
      add(group.profile_size() > 0, "instance_group.profile");
    }
    if (!names.empty()) log(LogKind::info, "model '" + config_.name() + "': without effect here: " + names);
  }

  const ModelConfig& config_;
};

}  // namespace

void check_model_config(const ModelConfig& config) {
  ConfigCheck(config).run();
}

}  // namespace camshaft::server
