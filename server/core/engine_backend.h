// Engines behind a model: model.plan, and model.onnx, of which one is built.
#pragma once

#include <map>
#include <string>

#include "camshaft/engine.hpp"
#include "server/core/backend.h"
#include "server/core/buffer_pool.h"
#include "server/core/kept_engines.h"

namespace camshaft::server {

class EngineBackend : public Backend {
 public:
  EngineBackend(const ModelSource& source, const ModelConfig& config);
  void complete(ModelConfig& config) override;
  void add_limits(Signature& signature) override;
  std::vector<PlacedInstance> make_instances(const ModelConfig& config, const Signature& signature) override;

 private:
  const Engine& engine(const std::string& device);

  std::string model_;
  std::filesystem::path file_;
  EngineCache cache_;
  std::map<std::string, std::string> options_;
  std::string default_device_;
  int64_t default_batch_ = 4;
  bool strict_ = false;
  std::map<std::string, Engine> engines_;  ///< by device
  std::shared_ptr<BufferPool> pool_;
};

/// A file of a model by what its configuration calls it. Throws ServerError(invalid_argument) for one that is not
/// there, or not in the folder.
std::filesystem::path file_in(const std::filesystem::path& folder, const std::string& name, const std::string& model);

}  // namespace camshaft::server
