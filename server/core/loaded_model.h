// A version of a model over a backend's instances.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/core/backend.h"
#include "server/core/model.h"
#include "server/core/rate_limiter.h"
#include "server/core/response_cache.h"
#include "server/core/scheduler.h"
#include "server/core/temporary_folder.h"

namespace camshaft::server {

/// What models of a server share.
struct SharedParts {
  std::shared_ptr<RateLimiter> limiter;  ///< null: instances run when they can
  std::shared_ptr<ResponseCache> cache;  ///< null: none
  ModelManager* models = nullptr;        ///< that the models belong to
};

class LoadedModel : public Model {
 public:
  /// Opens the version's file, completes the configuration, makes instances and warms them up. `held`: its folder,
  /// where that is temporary. Throws ServerError and Error.
  LoadedModel(const ModelManagerOptions& options, const std::filesystem::path& folder, int64_t version,
              ModelConfig config, const SharedParts& shared, std::shared_ptr<TemporaryFolder> held);

  const std::string& version() const override { return version_; }
  const ModelConfig& config() const override { return config_; }
  std::string platform() const override { return config_.platform(); }
  const std::vector<std::string>& labels(const std::string& output) const override;
  void infer(Request request, Respond respond) noexcept override;
  ModelStatistics& statistics() override { return statistics_; }
  void retire() noexcept override { backend_->retire(); }

 private:
  std::shared_ptr<TemporaryFolder> held_;
  std::string version_;
  ModelConfig config_;
  std::map<std::string, std::vector<std::string>> labels_;
  ModelStatistics statistics_;
  Signature signature_;
  std::shared_ptr<ResponseCache> cache_;
  const uint64_t cache_owner_ = ResponseCache::next_owner();
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Scheduler> scheduler_;  // last: it ends first, with its instances
};

/// The labels of each output that has a file of them: a line each. Throws ServerError(invalid_argument).
std::map<std::string, std::vector<std::string>> read_labels(const std::filesystem::path& folder,
                                                            const ModelConfig& config);

}  // namespace camshaft::server
