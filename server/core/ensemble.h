// Models one behind another as one model.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/core/model.h"
#include "server/core/model_manager.h"
#include "server/core/signature.h"

namespace camshaft::server {

/// A step starts as soon as all its inputs are there; independent steps run at the same time. Tensors go from model to
/// model without a copy.
class Ensemble : public Model {
 public:
  /// The steps' models must be loaded. Throws ServerError(invalid_argument) for tensors that nothing or two steps make,
  /// steps that wait for each other, and types and shapes that do not fit, naming step and tensor.
  Ensemble(const ModelManager& models, const std::filesystem::path& folder, int64_t version, ModelConfig config);

  const std::string& version() const override { return version_; }
  const ModelConfig& config() const override { return config_; }
  std::string platform() const override { return "ensemble"; }
  const std::vector<std::string>& labels(const std::string& output) const override;
  void infer(Request request, Respond respond) noexcept override;
  ModelStatistics& statistics() override { return statistics_; }

 private:
  class Flow;

  const ModelManager& models_;
  std::string version_;
  ModelConfig config_;
  std::map<std::string, std::vector<std::string>> labels_;
  Signature signature_;
  ModelStatistics statistics_;
};

/// Throws ServerError(invalid_argument) as the constructor of Ensemble does.
void check_ensemble(const ModelManager& models, const ModelConfig& config);

}  // namespace camshaft::server
