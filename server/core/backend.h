// What a version's file becomes: an engine, a process with Python, …
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "server/core/instance.h"
#include "server/core/model_config.h"
#include "server/core/model_manager.h"
#include "server/core/signature.h"

namespace camshaft::server {

/// Where a version lies.
struct ModelSource {
  std::string name;
  int64_t version = 1;
  std::filesystem::path folder;          ///< the model's
  std::filesystem::path version_folder;  ///< <folder>/<version>
  const ModelManagerOptions& options;
  ModelStatistics& statistics;  ///< of the version, which outlives its backend
  ModelManager& models;         ///< for models that call others
};

/// An instance, and of which group of the configuration it is.
struct PlacedInstance {
  std::unique_ptr<Instance> instance;
  int group = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Fills in what the configuration leaves out (inputs, outputs, max_batch_size), and checks the rest against the
  /// model. Throws ServerError(invalid_argument), naming the field.
  virtual void complete(ModelConfig& config) = 0;
  /// Adds what the model's file says beyond the configuration: how much a batch may hold.
  virtual void add_limits(Signature& /*signature*/) {}
  /// As instance_group of the completed configuration says, where each group has kind and count.
  virtual std::vector<PlacedInstance> make_instances(const ModelConfig& config, const Signature& signature) = 0;
  /// As Model::retire().
  virtual void retire() noexcept {}
};

/// By the configuration's backend or platform, or by the file that is there: model.plan, model.onnx, model.py,
/// llm.json. Fills in backend, platform and default_model_filename. Throws ServerError.
std::unique_ptr<Backend> open_backend(const ModelSource& source, ModelConfig& config);

}  // namespace camshaft::server
