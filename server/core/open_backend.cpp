#include <array>
#include <string_view>

#include "server/core/backend.h"
#include "server/core/engine_backend.h"
#include "server/core/python/python_backend.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace fs = std::filesystem;

// By the names that configurations have for Triton, and our own.
struct BackendName {
  std::string_view backend, platform, file;
};
constexpr std::array<BackendName, 5> backend_names = {{{"camshaft", "camshaft_plan", "model.plan"},
                                                       {"tensorrt", "tensorrt_plan", "model.plan"},
                                                       {"onnxruntime", "onnxruntime_onnx", "model.onnx"},
                                                       {"python", "python", "model.py"},
                                                       {"llm", "llm", "llm.json"}}};

const BackendName& find_backend(const ModelSource& source, const ModelConfig& config) {
  const std::string& asked = config.backend().empty() ? config.platform() : config.backend();
  for (const BackendName& name : backend_names)
    if (asked == name.backend || asked == name.platform) return name;
  if (!asked.empty())
    throw ServerError(
        StatusCode::unsupported,
        "model '" + source.name + "': there is no backend '" + asked +
            "' here. It may be tensorrt (an engine of Camshaft's, model.plan), onnxruntime (model.onnx), "
            "python (model.py), llm (a folder of `camshaft llm build`) or an ensemble; export other models to ONNX");
  if (!config.default_model_filename().empty()) {
    const std::string kind =
        file_in(source.version_folder, config.default_model_filename(), source.name).extension().string();
    return backend_names[kind == ".py" ? 3 : kind == ".onnx" ? 2 : 0];
  }
  std::error_code error;
  for (const BackendName& name : backend_names)
    if (fs::exists(source.version_folder / name.file, error)) return name;
  throw ServerError(StatusCode::invalid_argument,
                    "model '" + source.name + "': there is no model.plan, model.onnx, model.py or llm.json in " +
                        source.version_folder.string() + ", and the configuration has no default_model_filename");
}

}  // namespace

std::unique_ptr<Backend> open_backend(const ModelSource& source, ModelConfig& config) {
  const BackendName& name = find_backend(source, config);
  if (config.backend().empty()) config.set_backend(std::string(name.backend));
  if (config.platform().empty()) config.set_platform(std::string(name.platform));
  if (config.default_model_filename().empty()) config.set_default_model_filename(std::string(name.file));
  if (name.backend == "python" || name.backend == "llm") return std::make_unique<PythonBackend>(source, config);
  return std::make_unique<EngineBackend>(source, config);
}

}  // namespace camshaft::server
