#include "server/core/loaded_model.h"

#include <fstream>
#include <utility>

#include "server/core/dynamic_batcher.h"
#include "server/core/engine_backend.h"
#include "server/core/sequence_batcher.h"
#include "server/core/status.h"
#include "server/core/warm_up.h"

namespace camshaft::server {

namespace {

// Keeps the response of a request that the cache did not have.
void keep_response(Pending& pending, const std::shared_ptr<ResponseCache>& cache, ModelStatistics& statistics,
                   const ResponseCache::Key& key, Clock::duration lookup) {
  pending.intercept([&](Respond respond) {
    return [respond = std::move(respond), cache, &statistics, key, lookup](Response response) {
      if (response.status.ok()) {
        const Clock::time_point start = Clock::now();
        try {
          cache->insert(key, response.outputs);
        } catch (const std::bad_alloc&) {  // then it is not kept
        }
        statistics.cache_missed(lookup + (Clock::now() - start));
      }
      respond(std::move(response));
    };
  });
}

// Outputs that clients want in their own memory, and inputs that the host would have to fetch from a GPU first.
bool is_outside_cache(const Pending& pending) {
  for (const RequestedOutput& output : pending.request.outputs)
    if (output.target) return true;
  for (const NamedTensor& input : pending.request.inputs)
    if (!input.data.device.is_host()) return true;
  return false;
}

// Whether batches may be run at the load, for their sizes' sake: memory for the largest one is then taken.
bool gets_ready(const ModelConfig& config) {
  const auto asked = config.parameters().find("get_ready");
  if (asked == config.parameters().end()) return true;
  const std::string& text = asked->second.string_value();
  if (text == "true" || text == "false") return text == "true";
  throw ServerError(
      StatusCode::invalid_argument,
      "model '" + config.name() + "': the parameter get_ready must be true or false, it is '" + text + "'");
}

}  // namespace

std::map<std::string, std::vector<std::string>> read_labels(const std::filesystem::path& folder,
                                                            const ModelConfig& config) {
  std::map<std::string, std::vector<std::string>> labels;
  for (const auto& output : config.output()) {
    if (output.label_filename().empty()) continue;
    std::ifstream in(file_in(folder, output.label_filename(), config.name()));
    std::vector<std::string>& lines = labels[output.name()];
    for (std::string line; std::getline(in, line);) {
      if (line.ends_with('\r')) line.pop_back();
      lines.push_back(line);
    }
  }
  return labels;
}

LoadedModel::LoadedModel(const ModelManagerOptions& options, const std::filesystem::path& folder, int64_t version,
                         ModelConfig config, const SharedParts& shared, std::shared_ptr<TemporaryFolder> held)
    : held_(std::move(held)), version_(std::to_string(version)), config_(std::move(config)) {
  const ModelSource source{config_.name(), version, folder, folder / version_, options, statistics_, *shared.models};
  backend_ = open_backend(source, config_);
  backend_->complete(config_);
  check_model_config(config_);
  labels_ = read_labels(folder, config_);
  signature_ = make_signature(config_);
  backend_->add_limits(signature_);
  // What depends on the requests before, or has several responses, is not kept.
  const bool can_be_kept = !config_.model_transaction_policy().decoupled() && !config_.has_sequence_batching();
  if (config_.response_cache().enable() && can_be_kept) cache_ = shared.cache;
  std::vector<PlacedInstance> instances = backend_->make_instances(config_, signature_);
  warm_up(config_, signature_, folder, instances);
  std::vector<RateLimiter::Claim> claims;
  for (const auto& group : config_.instance_group()) {
    claims.push_back(make_claim(group, group.gpus().empty() ? 0 : group.gpus(0)));
    if (shared.limiter) shared.limiter->admit(claims.back(), config_.name());
  }
  if (config_.has_sequence_batching()) {
    scheduler_ = std::make_unique<SequenceBatcher>(std::move(instances), config_, signature_, folder, statistics_,
                                                   shared.limiter, std::move(claims));
    return;
  }
  DynamicBatcher::Options batching;
  batching.policy = make_batch_policy(config_);
  for (const TensorSpec& input : signature_.inputs) batching.policy.most_elements.push_back(input.most_elements);
  batching.preserve_ordering = config_.dynamic_batching().preserve_ordering();
  batching.limiter = shared.limiter;
  batching.claims = std::move(claims);
  if (batching.policy.max_batch > 1 && gets_ready(config_))
    batching.policy.ready = get_ready(config_, signature_, instances, batching.policy.preferred);
  std::shared_ptr<BatchTimes> times;
  if (batching.policy.latency_target) {
    times = std::make_shared<BatchTimes>();
    measure_batches(signature_, *instances.front().instance, *times);
  }
  scheduler_ = std::make_unique<DynamicBatcher>(std::move(instances), std::move(batching), statistics_, times);
}

const std::vector<std::string>& LoadedModel::labels(const std::string& output) const {
  static const std::vector<std::string> none;
  const auto at = labels_.find(output);
  return at == labels_.end() ? none : at->second;
}

void LoadedModel::infer(Request request, Respond respond) noexcept {
  request.version = version_;
  auto pending = std::make_unique<Pending>(std::move(request), std::move(respond), statistics_, shared_from_this());
  try {
    check_request(signature_, *pending);
    if (cache_ && !is_outside_cache(*pending)) {
      const Clock::time_point start = Clock::now();
      const ResponseCache::Key key = ResponseCache::key(*pending, cache_owner_);
      auto outputs = cache_->find(key);
      const Clock::duration lookup = Clock::now() - start;
      if (outputs) {
        statistics_.cache_hit(lookup);
        pending->succeed(std::move(*outputs));
        return;
      }
      keep_response(*pending, cache_, statistics_, key, lookup);
    }
    scheduler_->submit(pending);
  } catch (...) {
    const Status status = current_exception_status();
    const bool rejected = status.code == StatusCode::unavailable || status.code == StatusCode::resource_exhausted;
    if (pending) pending->fail(status, rejected ? FailureReason::rejected : FailureReason::other);
  }
}

}  // namespace camshaft::server
