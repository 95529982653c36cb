#include "builder/build_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace camshaft {

namespace {

std::string device_text(const DeviceInfo& device) {
  return device.kind + " " + device.isa;
}

LockFile read_lock(const std::string& path, const ModelIdentity& model, const DeviceInfo& device) {
  LockFile lock = LockFile::read(path);
  if (lock.model_hash != model.hash)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the lock file '{}' was written for another model: '{}' with hash {}, while '{}' has {}",
                            path, lock.model, lock.model_hash, model.name, model.hash));
  if (lock.device != device_text(device))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the lock file '{}' was written on a device '{}', this one is '{}': weights are laid out "
                            "differently, write a lock file here",
                            path, lock.device, device_text(device)));
  return lock;
}

}  // namespace

void check_tuning_options(const BuildOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::invalid_argument, what); };
  if (options.tuning != Tuning::heuristic && options.tuning != Tuning::measure && options.tuning != Tuning::locked)
    refuse(fmt::format("there is no tuning mode {}", static_cast<int>(options.tuning)));
  if (!std::isfinite(options.tuning_seconds) || options.tuning_seconds < 0)
    refuse(fmt::format("tuning cannot take {} seconds; give 0 or more", options.tuning_seconds));
  if (options.tuning == Tuning::locked && options.lock.empty()) refuse("locked tuning needs a lock file");
  if (options.tuning != Tuning::locked && !options.lock.empty())
    refuse("a lock file says which tactics to use: it goes with locked tuning alone");
}

BuildTuning::BuildTuning(const BuildOptions& options, const ModelIdentity& model, const Backend& backend,
                         ThreadPool& pool)
    : options_(options), model_(model), backend_(backend) {
  TuneOptions tune;
  tune.mode = options.tuning;
  tune.seconds = options.tuning_seconds;
  tune.cancellation = options.cancellation;
  if (options.progress)
    tune.progress = [&options](double fraction) { options.progress("tuning", 0.3 + 0.2 * fraction); };
  if (is_locked()) {
    tune.lock = read_lock(options.lock, model, backend.device());
    is_fp8_ = tune.lock->is_fp8;
    for (const std::string& layer : tune.lock->float_layers) kept_layers_.emplace(layer, "the lock file says so");
  }
  const bool cached = tune.mode == Tuning::measure && !options.timing_cache.empty();
  tuner_ = std::make_unique<Tuner>(backend, pool, std::move(tune),
                                   cached ? TimingCache::read(options.timing_cache) : TimingCache());
}

std::optional<LayerPrecision> BuildTuning::low_precision(const std::vector<LayerPrecision>& allowed) const {
  const LayerPrecision wanted = is_fp8_ ? LayerPrecision::fp8 : LayerPrecision::int8;
  if (allowed.empty()) return std::nullopt;
  return std::find(allowed.begin(), allowed.end(), wanted) != allowed.end() ? wanted : allowed.front();
}

std::vector<TacticDecision> BuildTuning::choose(const Graph& graph, const std::vector<SymbolBindings>& optima,
                                                Deviation most) {
  const int64_t measured = tuner_->counts().measured;
  std::vector<TacticDecision> decisions = tuner_->choose(graph, optima, most);
  if (!options_.timing_cache.empty() && tuner_->counts().measured > measured)
    tuner_->cache().write(options_.timing_cache);
  return decisions;
}

void BuildTuning::report(BuildReport& report) const {
  report.problems_measured = tuner_->counts().measured;
  report.problems_cached = tuner_->counts().cached;
  report.problems_out_of_time = tuner_->counts().out_of_time;
}

void BuildTuning::write_lock(const OptimizedModel& model, const SymbolBindings& optimum,
                             const std::vector<TacticDecision>& decisions) const {
  if (options_.write_lock.empty()) return;
  LockFile lock;
  lock.model = model_.name;
  lock.model_hash = model_.hash;
  lock.device = device_text(backend_.device());
  lock.tuning = summary();
  lock.made_by = CAMSHAFT_VERSION;
  lock.layers = tuner_->lock_layers(model.graph, optimum, decisions);
  for (const LayerPlacement& layer : model.quantized_layers)
    if (!layer.quantized) lock.float_layers.push_back(layer.layer);
  for (const LayerPlacement& layer : model.quantized_layers)
    lock.is_fp8 = lock.is_fp8 || (layer.quantized && layer.precision == LayerPrecision::fp8);
  lock.write(options_.write_lock);
}

}  // namespace camshaft
