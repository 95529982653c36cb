#include "server/core/engine_backend.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "camshaft/system.hpp"
#include "server/core/complete_config.h"
#include "server/core/engine_cache.h"
#include "server/core/engine_instance.h"
#include "server/core/log.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace fs = std::filesystem;

// What memory of batches is kept for the next one, a model.
constexpr size_t most_kept_bytes = size_t{64} << 20;

// Options of a build that a configuration may set: those that neither read nor write files of anybody's choice.
constexpr std::array build_parameters = {"fp16",
                                         "bf16",
                                         "tf32",
                                         "int8",
                                         "best",
                                         "strongly-typed",
                                         "layer-precisions",
                                         "layer-output-types",
                                         "precision-constraints",
                                         "tuning",
                                         "tuning-seconds",
                                         "verify",
                                         "tolerance",
                                         "verify-seconds",
                                         "seed"};

bool is_build_parameter(const std::string& name) {
  return std::find(build_parameters.begin(), build_parameters.end(), name) != build_parameters.end();
}

// TensorRT as ONNX Runtime's accelerator, as Triton's files ask for it.
void take_accelerator(const ModelConfig& config, std::map<std::string, std::string>& options) {
  for (const auto& accelerator : config.optimization().execution_accelerators().gpu_execution_accelerator()) {
    const auto mode = accelerator.parameters().find("precision_mode");
    if (accelerator.name() == "tensorrt" && mode != accelerator.parameters().end() && mode->second == "FP16")
      options["fp16"] = "true";
  }
}

std::map<std::string, std::string> build_options_of(const ModelSource& source, const ModelConfig& config) {
  std::map<std::string, std::string> options;
  take_accelerator(config, options);
  for (const auto& [name, parameter] : config.parameters()) {
    if (is_build_parameter(name)) options[name] = parameter.string_value();
    if (name == "calibration") options[name] = file_in(source.folder, parameter.string_value(), source.name).string();
  }
  return options;
}

// --backend-config=default-max-batch-size=N, or of one backend: onnxruntime,default-max-batch-size=N.
int64_t default_batch_of(const std::vector<std::string>& settings) {
  int64_t batch = 4;
  for (const std::string& setting : settings) {
    const size_t at = setting.find("default-max-batch-size=");
    if (at == std::string::npos || (at > 0 && setting[at - 1] != ',')) continue;
    const std::string backend = at == 0 ? "" : setting.substr(0, at - 1);
    if (backend.empty() || backend == "onnxruntime" || backend == "tensorrt" || backend == "camshaft")
      batch = std::max<int64_t>(0, std::atoll(setting.c_str() + setting.find('=', at) + 1));
  }
  return batch;
}

bool has_gpu() {
  const Record devices = camshaft::devices();
  for (size_t i = 0; i < devices.size(); ++i)
    if (devices[i]["kind"].text() == "cuda" && !devices[i]["name"].text().empty() &&
        devices[i]["warning"].text().empty())
      return true;
  return false;
}

// Inputs whose first axis is no number of requests: those of ragged batches.
std::set<std::string> inputs_without_batch(const ModelConfig& config) {
  std::set<std::string> names;
  for (const auto& input : config.input())
    if (input.allow_ragged_batch()) names.insert(input.name());
  for (const inference::BatchInput& input : config.batch_input())
    if (input.kind() > inference::BatchInput::BATCH_ACCUMULATED_ELEMENT_COUNT)
      names.insert(input.target_name().begin(), input.target_name().end());
  return names;
}

// Of all profiles the largest first axis that every input may have; nothing: there are none.
std::optional<int64_t> most_batch(const Engine& engine, const std::set<std::string>& others) {
  std::optional<int64_t> most;
  for (const Profile& profile : engine.profiles()) {
    std::optional<int64_t> least;
    for (const auto& [name, range] : profile.inputs)
      if (!range.max.empty() && !others.contains(name))
        least = std::min(least.value_or(range.max.front()), range.max.front());
    if (least) most = std::max(most.value_or(0), *least);
  }
  return most;
}

int instance_threads(const ModelConfig& config, int64_t instances) {
  const auto own = config.parameters().find("threads");
  if (own == config.parameters().end())
    return static_cast<int>(std::max<int64_t>(1, available_cores() / std::max<int64_t>(1, instances)));
  char* end = nullptr;
  const std::string& text = own->second.string_value();
  const long threads = std::strtol(text.c_str(), &end, 10);
  const auto refuse = [&](const std::string& why) {
    throw ServerError(StatusCode::invalid_argument, "model '" + config.name() + "': the parameter threads: " + why);
  };
  if (text.empty() || *end != '\0') refuse("'" + text + "' is no number");
  try {
    ContextOptions().set("threads", int64_t{threads});
  } catch (const Error& e) {
    refuse(e.what());
  }
  return static_cast<int>(threads);
}

std::string requested_device(const ModelConfig& config, const std::string& otherwise) {
  for (const auto& group : config.instance_group()) {
    if (group.kind() == inference::ModelInstanceGroup::KIND_CPU) return "cpu";
    if (group.kind() == inference::ModelInstanceGroup::KIND_GPU || !group.gpus().empty())
      return "cuda:" + std::to_string(group.gpus().empty() ? 0 : group.gpus(0));
  }
  return otherwise;
}

}  // namespace

fs::path file_in(const fs::path& folder, const std::string& name, const std::string& model) {
  std::error_code error;
  const fs::path file = folder / name;
  const fs::path real = fs::canonical(file, error), inside = fs::canonical(folder, error);
  const bool is_inside =
      !error && std::mismatch(inside.begin(), inside.end(), real.begin(), real.end()).first == inside.end();
  if (name.empty() || !is_inside || !fs::is_regular_file(real, error))
    throw ServerError(StatusCode::invalid_argument,
                      "model '" + model + "': there is no file '" + name + "' in " + folder.string());
  return file;
}

EngineBackend::EngineBackend(const ModelSource& source, const ModelConfig& config)
    : model_(source.name),
      file_(file_in(source.version_folder, config.default_model_filename(), source.name)),
      cache_(source.options.engine_cache),
      options_(build_options_of(source, config)),
      default_batch_(default_batch_of(source.options.backend_config)),
      strict_(source.options.strict_config),
      pool_(std::make_shared<BufferPool>(most_kept_bytes)) {
  const bool is_engine = Engine::is_engine_file(file_.string());
  std::string device = source.options.device;
  if (device.empty() && !is_engine) device = has_gpu() ? "cuda:0" : "cpu";
  const std::string requested = requested_device(config, "");
  if (!requested.empty()) {
    engine(default_device_ = requested);
    return;
  }
  const Engine first = open_engine({file_, device, options_}, cache_);
  default_device_ = to_string(first.device());
  engines_.emplace(default_device_, first);
}

const Engine& EngineBackend::engine(const std::string& device) {
  const auto at = engines_.find(device);
  if (at != engines_.end()) return at->second;
  try {
    return engines_.emplace(device, open_engine({file_, device, options_}, cache_)).first->second;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported || !device.starts_with("cuda")) throw;
    throw ServerError(StatusCode::invalid_argument, "an instance_group has kind KIND_GPU, or names the GPU " + device +
                                                        ", which cannot be used: " + error.what());
  }
}

void EngineBackend::complete(ModelConfig& config) {
  const Engine& first = engine(default_device_);
  complete_tensors(config,
                   {first.inputs(), first.outputs(), most_batch(first, inputs_without_batch(config)), default_batch_},
                   strict_);
  complete_defaults(
      config,
      first.device().is_host() ? inference::ModelInstanceGroup::KIND_CPU : inference::ModelInstanceGroup::KIND_GPU,
      strict_);
}

// Of several profiles the one with the longest row is chosen by the shapes of a batch.
void EngineBackend::add_limits(Signature& signature) {
  for (const Profile& profile : engine(default_device_).profiles())
    for (TensorSpec& input : signature.inputs) {
      const auto range = profile.inputs.find(input.name);
      if (input.ragged && range != profile.inputs.end() && !range->second.max.empty())
        input.most_elements = std::max(input.most_elements, range->second.max.front());
    }
}

std::vector<PlacedInstance> EngineBackend::make_instances(const ModelConfig& config, const Signature& signature) {
  int64_t on_host = 0;
  for (const auto& group : config.instance_group())
    if (group.kind() != inference::ModelInstanceGroup::KIND_GPU) on_host += group.count();
  std::vector<PlacedInstance> instances;
  for (int g = 0; g < config.instance_group_size(); ++g) {
    const auto& group = config.instance_group(g);
    if (group.passive()) continue;
    const bool gpu = group.kind() == inference::ModelInstanceGroup::KIND_GPU;
    std::vector<std::string> devices;
    for (const int32_t number : group.gpus()) devices.push_back("cuda:" + std::to_string(number));
    if (devices.empty())
      devices.push_back(gpu ? default_device_.starts_with("cuda") ? default_device_ : "cuda:0" : "cpu");
    for (const std::string& device : devices)
      for (int i = 0; i < group.count(); ++i)
        instances.push_back({std::make_unique<EngineInstance>(
                                 engine(device), gpu ? 0 : instance_threads(config, on_host), signature, pool_),
                             g});
  }
  if (instances.empty())
    throw ServerError(StatusCode::invalid_argument,
                      "model '" + config.name() + "': all its instance groups are passive");
  return instances;
}

}  // namespace camshaft::server
