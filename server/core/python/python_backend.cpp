#include "server/core/python/python_backend.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "server/core/complete_config.h"
#include "server/core/engine_backend.h"
#include "server/core/log.h"
#include "server/core/status.h"

namespace camshaft::server {
namespace {

using nlohmann::json;

std::string python_environment_of(const ModelSource& source, const ModelConfig& config) {
  const auto found = config.parameters().find("EXECUTION_ENV_PATH");
  if (found == config.parameters().end()) return {};
  std::string path = found->second.string_value();
  constexpr std::string_view folder = "$$TRITON_MODEL_DIRECTORY";
  if (path.starts_with(folder)) path = source.folder.string() + path.substr(folder.size());
  if (!std::filesystem::exists(path)) {
    throw ServerError(StatusCode::invalid_argument,
                      "model '" + source.name + "': EXECUTION_ENV_PATH: there is no '" + path + "'");
  }
  return path;
}

std::chrono::seconds patience_of(const std::vector<std::string>& settings) {
  constexpr std::string_view name = "python,stub-timeout-seconds=";
  int64_t seconds = 30;
  for (const std::string& setting : settings) {
    if (!setting.starts_with(name)) continue;
    const char* end = setting.data() + setting.size();
    const auto [stopped, error] = std::from_chars(setting.data() + name.size(), end, seconds);
    if (error != std::errc() || stopped != end || seconds < 0 || seconds > 86400)
      throw ServerError(StatusCode::invalid_argument, "--backend-config=" + setting + " is no number of seconds");
  }
  return std::chrono::seconds(seconds);
}

/// What auto_complete_config makes of a configuration.
json auto_completed(const PythonModel& model, const json& config) {
  std::shared_ptr<PythonLink> link;
  const pid_t process = start_python(model, link);
  json answer;
  try {
    json message = load_message(model, "auto_complete");
    message["config"] = config;
    link->send(message);
    for (;;) {
      const PythonLink::Received received = link->receive(answer, std::nullopt);
      if (received == PythonLink::Received::closed) {
        throw ServerError(StatusCode::invalid_argument, "the Python process of model '" + model.name +
                                                            "' ended while it completed the configuration: it " +
                                                            end_process(process, model.patience));
      }
      if (answer.at("op") == "completed") break;
      if (answer.at("op") == "broken") {
        throw ServerError(StatusCode::invalid_argument,
                          "the Python process of model '" + model.name + "' " + answer.at("error").get<std::string>());
      }
      if (answer.at("op") == "log")
        log(LogKind::info, "model '" + model.name + "': " + answer.at("text").get<std::string>());
    }
    link->send({{"op", "finalize"}});
  } catch (...) {
    end_process(process, std::chrono::seconds(0));
    throw;
  }
  end_process(process, model.patience);
  if (!answer.at("error").is_null()) {
    throw ServerError(StatusCode::invalid_argument, "model '" + model.name + "': auto_complete_config failed: " +
                                                        answer.at("error").get<std::string>());
  }
  return answer.at("config");
}

/// A language model takes the body of a call of OpenAI's interface, and answers with the reply or with events.
void complete_language_model(ModelConfig& config) {
  if (config.input().empty()) {
    inference::ModelInput& input = *config.add_input();
    input.set_name("request");
    input.set_data_type(inference::TYPE_STRING);
    input.add_dims(1);
  }
  if (config.output().empty()) {
    inference::ModelOutput& output = *config.add_output();
    output.set_name("response");
    output.set_data_type(inference::TYPE_STRING);
    output.add_dims(1);
  }
  config.mutable_model_transaction_policy()->set_decoupled(true);
}

}  // namespace

PythonBackend::PythonBackend(const ModelSource& source, const ModelConfig& config)
    : version_(source.version),
      strict_(source.options.strict_config),
      language_(config.backend() == "llm"),
      statistics_(source.statistics),
      models_(source.models) {
  model_.name = source.name;
  model_.file = file_in(source.version_folder, config.default_model_filename(), source.name);
  model_.folder = std::filesystem::absolute(source.folder);
  model_.file = std::filesystem::absolute(model_.file);
  model_.version_folder = std::filesystem::absolute(source.version_folder);
  model_.python = find_python(python_environment_of(source, config));
  // Its folder has no code: that is the worker's own, over the package camshaft.
  if (language_) model_.file = model_.python.worker->path() / "camshaft_language_model.py";
  model_.patience = patience_of(source.options.backend_config);
}

void PythonBackend::complete(ModelConfig& config) {
  if (language_) {
    complete_language_model(config);
  } else if (!strict_) {
    const std::string given = model_config_json(config);
    const json completed = auto_completed(model_, json::parse(given));
    if (completed != json::parse(given)) config = parse_model_config_json(completed.dump());
  }
  model_.decoupled = config.model_transaction_policy().decoupled();
  complete_defaults(config, inference::ModelInstanceGroup::KIND_CPU, strict_);
}

std::vector<PlacedInstance> PythonBackend::make_instances(const ModelConfig& config, const Signature& signature) {
  const auto model = std::make_shared<const PythonModel>(model_);
  std::vector<PlacedInstance> instances;
  for (int group = 0; group < config.instance_group_size(); ++group) {
    const inference::ModelInstanceGroup& placed = config.instance_group(group);
    if (placed.passive()) continue;
    const bool gpu = placed.kind() == inference::ModelInstanceGroup::KIND_GPU;
    for (int d = 0; d < std::max(1, placed.gpus_size()); ++d) {
      const int device = placed.gpus().empty() ? 0 : placed.gpus(d);
      for (int i = 0; i < placed.count(); ++i) {
        const std::string place = gpu ? "_gpu" + std::to_string(device) : "";
        const json arguments = {
            {"model_config", model_config_json(config)},
            {"model_instance_kind", gpu ? "GPU" : "CPU"},
            {"model_instance_device_id", std::to_string(device)},
            {"model_instance_name", model_.name + "_" + std::to_string(group) + place + "_" + std::to_string(i)},
            {"model_repository", model_.folder.string()},
            {"model_version", std::to_string(version_)},
            {"model_name", model_.name}};
        auto instance = std::make_unique<PythonInstance>(model, arguments, signature, statistics_, models_);
        instances_.push_back(instance.get());
        instances.push_back({std::move(instance), group});
      }
    }
  }
  if (instances.empty())
    throw ServerError(StatusCode::invalid_argument,
                      "model '" + config.name() + "': all its instance groups are passive");
  return instances;
}

void PythonBackend::retire() noexcept {
  for (PythonInstance* instance : instances_) instance->retire();
}

}  // namespace camshaft::server
