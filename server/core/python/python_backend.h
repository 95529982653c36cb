// Models written in Python: model.py with a class TritonPythonModel; and language models, which have one of ours.
#pragma once

#include <memory>
#include <vector>

#include "server/core/backend.h"
#include "server/core/python/python_instance.h"

namespace camshaft::server {

/// Each instance is a process of its own, of the interpreter that the configuration's parameter EXECUTION_ENV_PATH or
/// the variable CAMSHAFT_PYTHON names, or python3. --backend-config=python,stub-timeout-seconds=N is how long processes
/// may take to end.
class PythonBackend : public Backend {
 public:
  /// Throws ServerError(invalid_argument) without an interpreter or the model's file.
  PythonBackend(const ModelSource& source, const ModelConfig& config);

  /// By the model's auto_complete_config, in a process that ends then.
  void complete(ModelConfig& config) override;
  std::vector<PlacedInstance> make_instances(const ModelConfig& config, const Signature& signature) override;
  void retire() noexcept override;

 private:
  PythonModel model_;
  int64_t version_;
  bool strict_, language_;
  ModelStatistics& statistics_;
  ModelManager& models_;
  std::vector<PythonInstance*> instances_;  ///< the scheduler's, which ends them before this ends
};

}  // namespace camshaft::server
