#include "server/core/model_manager.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>

#include "server/core/ensemble.h"
#include "server/core/loaded_model.h"
#include "server/core/log.h"
#include "server/core/reaper.h"
#include "server/core/status.h"

namespace camshaft::server {

namespace {

namespace fs = std::filesystem;

std::vector<int64_t> wanted_versions(const ModelFolder& folder, const ModelConfig& config) {
  std::vector<int64_t> versions = folder.versions;
  const auto& policy = config.version_policy();
  if (policy.has_specific()) {
    std::erase_if(versions, [&](int64_t version) {
      const auto& wanted = policy.specific().versions();
      return std::find(wanted.begin(), wanted.end(), version) == wanted.end();
    });
  } else if (!policy.has_all()) {
    const size_t count = policy.has_latest() ? policy.latest().num_versions() : 1;
    if (versions.size() > count) versions.erase(versions.begin(), versions.end() - static_cast<long>(count));
  }
  if (versions.empty())
    throw ServerError(StatusCode::invalid_argument,
                      "at least one version must be available under the version policy of model '" + folder.name + "'");
  return versions;
}

ModelConfig read_config(const ModelFolder& folder, const ModelManagerOptions& options, const LoadOverrides& overrides) {
  ModelConfig config;
  std::error_code error;
  if (overrides.config_json) {
    config = parse_model_config_json(*overrides.config_json);
  } else {
    const fs::path named = folder.path / "configs" / (options.config_name + ".pbtxt");
    const fs::path usual = folder.path / "config.pbtxt";
    if (!options.config_name.empty() && fs::exists(named, error))
      config = read_model_config(named);
    else if (fs::exists(usual, error))
      config = read_model_config(usual);
    else if (options.strict_config)
      throw ServerError(StatusCode::invalid_argument, "model '" + folder.name +
                                                          "' has no config.pbtxt, which "
                                                          "--strict-model-config asks for");
  }
  if (config.name().empty()) config.set_name(folder.name);
  if (config.name() != folder.name)
    throw ServerError(StatusCode::invalid_argument, "unexpected directory name '" + folder.name + "' for model '" +
                                                        config.name() + "', directory name must equal model name");
  return config;
}

bool is_ensemble(const ModelConfig& config) {
  return config.platform() == "ensemble" || config.has_ensemble_scheduling();
}

}  // namespace

class ModelManager::State {
 public:
  explicit State(ModelManagerOptions given) : options(std::move(given)) {
    if (options.rate_limit) shared.limiter = std::make_shared<RateLimiter>(options.rate_limit_resources);
    if (options.cache_bytes > 0) shared.cache = std::make_shared<ResponseCache>(options.cache_bytes);
  }
  ~State() {
    {
      const std::lock_guard lock(poll_mutex);
      ending = true;
    }
    poll_wake.notify_all();
    if (poller.joinable()) poller.join();
    clear();
  }

  struct Version {
    std::shared_ptr<Model> model;
    ModelState state = ModelState::unknown;
    std::string reason;
    uint64_t fingerprint = 0;
  };
  struct Entry {
    std::map<int64_t, Version> versions;
    uint64_t fingerprint = 0;  ///< of the folder that was tried last
    bool wanted = false;       ///< it was to be loaded, and not to be unloaded since
    bool failed = false;
    bool overridden = false;  ///< by what a client brought
  };

  void load(const std::string& name, const LoadOverrides& overrides);
  void unload(const std::string& name, bool dependents);
  void load_many(const std::set<std::string>& names);
  void poll();
  void clear();

  ModelManagerOptions options;
  SharedParts shared;
  mutable std::shared_mutex mutex;
  std::map<std::string, Entry> entries;
  std::atomic<bool> started = false, draining = false;

  std::mutex busy_mutex;
  std::condition_variable busy_changed;
  std::set<std::string> busy;  ///< models that are being loaded or unloaded

  std::mutex poll_mutex;
  std::condition_variable poll_wake;
  bool ending = false;
  std::thread poller;
  ModelManager* manager = nullptr;
  Reaper reaper;  // last: it ends when all models have

 private:
  struct Prepared {
    ModelFolder folder;
    ModelConfig config;
    std::shared_ptr<TemporaryFolder> held;
  };
  Prepared prepare(const std::string& name, const LoadOverrides& overrides) const;
  std::map<int64_t, Version> load_versions(const Prepared& prepared, bool overridden);
  void load_alone(const std::string& name, const LoadOverrides& overrides);
  void note_failure(const std::string& name, const std::string& reason);
  void check_cycles(const ModelConfig& config, std::vector<std::string> path) const;
};

namespace {

// One at a time loads or unloads a model; others load meanwhile.
template <class State>
class BusyModel {
 public:
  BusyModel(State& state, std::string name) : state_(state), name_(std::move(name)) {
    std::unique_lock lock(state_.busy_mutex);
    state_.busy_changed.wait(lock, [&] { return !state_.busy.contains(name_); });
    state_.busy.insert(name_);
  }
  ~BusyModel() {
    {
      const std::lock_guard lock(state_.busy_mutex);
      state_.busy.erase(name_);
    }
    state_.busy_changed.notify_all();
  }
  BusyModel(const BusyModel&) = delete;
  BusyModel& operator=(const BusyModel&) = delete;

 private:
  State& state_;
  std::string name_;
};

}  // namespace

ModelManager::State::Prepared ModelManager::State::prepare(const std::string& name,
                                                           const LoadOverrides& overrides) const {
  Prepared prepared;
  if (overrides.files.empty()) {
    prepared.folder = find_model(options.repositories, name);
  } else {
    if (!overrides.config_json)
      throw ServerError(StatusCode::invalid_argument,
                        "failed to load '" + name + "', files were given without a 'config' parameter");
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..")
      throw ServerError(StatusCode::invalid_argument, "'" + name + "' is no name of a model");
    prepared.held = std::make_shared<TemporaryFolder>();
    for (const auto& [file, bytes] : overrides.files) prepared.held->write(name + "/" + file, bytes);
    prepared.folder = find_model({prepared.held->path()}, name);
  }
  prepared.config = read_config(prepared.folder, options, overrides);
  return prepared;
}

std::map<int64_t, ModelManager::State::Version> ModelManager::State::load_versions(const Prepared& prepared,
                                                                                   bool overridden) {
  std::map<int64_t, Version> kept, loaded;
  {
    const std::shared_lock lock(mutex);
    const auto at = entries.find(prepared.folder.name);
    if (at != entries.end() && !at->second.overridden) kept = at->second.versions;
  }
  if (is_ensemble(prepared.config)) {
    check_cycles(prepared.config, {});
    for (const auto& step : prepared.config.ensemble_scheduling().step())
      if (!manager->is_ready(step.model_name())) load(step.model_name(), {});
  }
  for (const int64_t number : wanted_versions(prepared.folder, prepared.config)) {
    const uint64_t fingerprint = prepared.folder.version_fingerprints.at(number) ^ prepared.folder.config_fingerprint;
    const auto before = kept.find(number);
    if (!overridden && before != kept.end() && before->second.model && before->second.fingerprint == fingerprint) {
      loaded[number] = before->second;
      continue;
    }
    std::unique_ptr<Model> model;
    const Clock::time_point start = Clock::now();
    if (is_ensemble(prepared.config))
      model = std::make_unique<Ensemble>(*manager, prepared.folder.path, number, prepared.config);
    else
      model =
          std::make_unique<LoadedModel>(options, prepared.folder.path, number, prepared.config, shared, prepared.held);
    model->statistics().loaded(Clock::now() - start);
    if (options.latency_summaries) model->statistics().keep_summaries();
    const auto gone = [this, name = prepared.folder.name, number] {
      const std::unique_lock lock(mutex);
      const auto entry = entries.find(name);
      if (entry == entries.end()) return;
      const auto version = entry->second.versions.find(number);
      if (version == entry->second.versions.end() || version->second.state != ModelState::unloading) return;
      version->second.state = ModelState::unavailable;
      version->second.reason = "unloaded";
    };
    loaded[number] = {reaper.adopt(std::move(model), gone), ModelState::ready, "", fingerprint};
  }
  return loaded;
}

// Before any step is loaded: two ensembles that are each other's steps would wait for each other.
void ModelManager::State::check_cycles(const ModelConfig& config, std::vector<std::string> path) const {
  if (std::find(path.begin(), path.end(), config.name()) != path.end())
    throw ServerError(StatusCode::invalid_argument,
                      "circular dependency between ensembles: '" + config.name() + "' is a step of itself");
  path.push_back(config.name());
  for (const auto& step : config.ensemble_scheduling().step()) {
    if (manager->is_ready(step.model_name()) && step.model_name() != path.front()) continue;
    const ModelConfig other = prepare(step.model_name(), {}).config;
    if (is_ensemble(other)) check_cycles(other, path);
  }
}

void ModelManager::State::note_failure(const std::string& name, const std::string& reason) {
  const std::unique_lock lock(mutex);
  Entry& entry = entries[name];
  entry.wanted = true;
  bool serves = false;
  for (const auto& [number, version] : entry.versions) serves |= version.model != nullptr;
  if (serves) return;  // the old one goes on
  entry.failed = true;
  for (auto& [number, version] : entry.versions) version.state = ModelState::unavailable, version.reason = reason;
  if (entry.versions.empty()) entry.versions[1] = {nullptr, ModelState::unavailable, reason, 0};
}

void ModelManager::State::load_alone(const std::string& name, const LoadOverrides& overrides) {
  const Prepared prepared = prepare(name, overrides);
  const bool overridden = overrides.config_json.has_value();
  {
    const std::unique_lock lock(mutex);
    Entry& entry = entries[name];
    entry.fingerprint = prepared.folder.fingerprint;
    for (auto& [number, version] : entry.versions)
      if (!version.model) version.state = ModelState::loading;
    if (entry.versions.empty())
      for (const int64_t number : wanted_versions(prepared.folder, prepared.config))
        entry.versions[number].state = ModelState::loading;
  }
  std::map<int64_t, Version> loaded = load_versions(prepared, overridden);
  std::string versions;
  for (const auto& [number, version] : loaded) versions += " " + std::to_string(number);
  {
    const std::unique_lock lock(mutex);
    Entry& entry = entries[name];
    entry.versions.swap(loaded);  // those of before end when this returns, or with their last request
    entry.wanted = true;
    entry.failed = false;
    entry.overridden = overridden;
    for (const auto& [number, version] : loaded) {
      const auto now = entry.versions.find(number);
      if (version.model && (now == entry.versions.end() || now->second.model != version.model)) version.model->retire();
    }
  }
  log(LogKind::info, "model '" + name + "' is ready, version" + versions);
}

void ModelManager::State::load(const std::string& name, const LoadOverrides& overrides) {
  if (draining) throw ServerError(StatusCode::unavailable, "the server is exiting");
  const BusyModel busy_model(*this, name);
  try {
    load_alone(name, overrides);
  } catch (...) {
    const Status status = current_exception_status();
    if (status.code != StatusCode::not_found) note_failure(name, status.message);
    log(LogKind::error, "model '" + name + "' is not loaded: " + status.message);
    // What is wrong with the model is wrong with what the client asked for.
    throw ServerError(status.code == StatusCode::internal ? StatusCode::invalid_argument : status.code,
                      "load failed for model '" + name + "': " + status.message);
  }
}

void ModelManager::State::unload(const std::string& name, bool dependents) {
  std::vector<std::shared_ptr<Model>> ended;
  std::vector<std::string> steps;
  {
    const BusyModel busy_model(*this, name);
    const std::unique_lock lock(mutex);
    const auto at = entries.find(name);
    if (at == entries.end()) return;
    at->second.wanted = at->second.failed = at->second.overridden = false;
    for (auto& [number, version] : at->second.versions) {
      if (!version.model) {
        version.state = ModelState::unavailable;
        version.reason = "unloaded";
        continue;
      }
      for (const auto& step : version.model->config().ensemble_scheduling().step()) steps.push_back(step.model_name());
      version.state = ModelState::unloading;
      version.fingerprint = 0;
      ended.push_back(std::move(version.model));
      version.model = nullptr;
    }
  }
  if (ended.empty()) return;
  for (const std::shared_ptr<Model>& model : ended) model->retire();
  ended.clear();
  log(LogKind::info, "model '" + name + "' is unloaded");
  if (dependents)
    for (const std::string& step : steps) unload(step, true);
}

void ModelManager::State::load_many(const std::set<std::string>& names) {
  std::vector<std::string> order(names.begin(), names.end());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next++) < order.size();) {
      try {
        load(order[i], {});
      } catch (const ServerError& error) {
        if (error.code() == StatusCode::not_found) note_failure(order[i], error.what());
      }
    }
  };
  std::vector<std::thread> helpers;
  const size_t threads = std::min<size_t>(order.size(), static_cast<size_t>(std::max(1, options.load_threads)));
  for (size_t i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
}

void ModelManager::State::poll() {
  const std::map<std::string, ModelFolder> found = scan_repositories(options.repositories);
  std::set<std::string> changed, gone;
  {
    const std::shared_lock lock(mutex);
    for (const auto& [name, folder] : found) {
      const auto at = entries.find(name);
      if (at == entries.end() || !at->second.wanted || at->second.fingerprint != folder.fingerprint)
        changed.insert(name);
    }
    for (const auto& [name, entry] : entries)
      if (entry.wanted && !found.contains(name)) gone.insert(name);
  }
  load_many(changed);
  for (const std::string& name : gone) unload(name, false);
}

void ModelManager::State::clear() {
  std::map<std::string, Entry> ended;
  {
    const std::unique_lock lock(mutex);
    ended.swap(entries);
  }
  for (const auto& [name, entry] : ended)
    for (const auto& [number, version] : entry.versions)
      if (version.model) version.model->retire();
}

ModelManager::ModelManager(ModelManagerOptions options) : state_(std::make_unique<State>(std::move(options))) {
  state_->manager = this;
  state_->shared.models = this;
}

ModelManager::~ModelManager() = default;

void ModelManager::start() {
  State& state = *state_;
  if (state.options.repositories.empty())
    throw ServerError(StatusCode::invalid_argument, "no model repository is given: --model-repository DIR");
  std::set<std::string> names;
  const std::vector<std::string>& startup = state.options.startup_models;
  const bool all = state.options.control != ModelControl::explicit_ ||
                   std::find(startup.begin(), startup.end(), "*") != startup.end();
  const std::map<std::string, ModelFolder> found = scan_repositories(state.options.repositories);
  if (all)
    for (const auto& [name, folder] : found) names.insert(name);
  else
    names.insert(startup.begin(), startup.end());
  state.load_many(names);
  state.started = true;
  if (state.options.control != ModelControl::poll || state.options.poll_seconds <= 0) return;
  state.poller = std::thread([&state] {
    std::unique_lock lock(state.poll_mutex);
    while (!state.poll_wake.wait_for(lock, std::chrono::seconds(state.options.poll_seconds),
                                     [&] { return state.ending; })) {
      lock.unlock();
      try {
        state.poll();
      } catch (...) {
        log(LogKind::error, "cannot look for changes: " + current_exception_status().message);
      }
      lock.lock();
    }
  });
}

std::string_view state_name(ModelState state) {
  switch (state) {
    case ModelState::ready:
      return "READY";
    case ModelState::unavailable:
      return "UNAVAILABLE";
    case ModelState::loading:
      return "LOADING";
    case ModelState::unloading:
      return "UNLOADING";
    case ModelState::unknown:
      break;
  }
  return "UNKNOWN";
}

void refuse_repository_name(const std::string& repository) {
  if (!repository.empty())
    throw ServerError(StatusCode::unsupported, "'repository_name' specification is not supported");
}

bool ModelManager::is_ready(const std::string& name, const std::string& version) const {
  try {
    find(name, version);
    return true;
  } catch (const ServerError& error) {
    if (error.code() != StatusCode::not_found && error.code() != StatusCode::unavailable) throw;
    return false;
  }
}

std::vector<std::shared_ptr<Model>> ModelManager::select(const std::string& name, const std::string& version) const {
  if (name.empty()) return all();
  std::shared_ptr<Model> found = find(name, version);
  if (!version.empty()) return {std::move(found)};
  std::vector<std::shared_ptr<Model>> models = all();
  std::erase_if(models, [&](const std::shared_ptr<Model>& model) { return model->name() != name; });
  return models;
}

std::shared_ptr<Model> ModelManager::find(const std::string& name, const std::string& version) const {
  if (state_->draining) throw ServerError(StatusCode::unavailable, "the server is exiting");
  const std::shared_lock lock(state_->mutex);
  const auto at = state_->entries.find(name);
  if (at == state_->entries.end())
    throw ServerError(StatusCode::not_found, "Request for unknown model: '" + name + "' is not found");
  const auto& versions = at->second.versions;
  if (version.empty() || version == "-1") {
    for (auto it = versions.rbegin(); it != versions.rend(); ++it)
      if (it->second.model) return it->second.model;
    throw ServerError(StatusCode::not_found, "Request for unknown model: '" + name + "' has no available versions");
  }
  const auto number = parse_version(version);
  if (!number)
    throw ServerError(StatusCode::invalid_argument, "failed to get model version from specified version string '" +
                                                        version.substr(0, 64) + "', a number is expected");
  const auto found = versions.find(*number);
  if (found == versions.end())
    throw ServerError(StatusCode::not_found,
                      "Request for unknown model: '" + name + "' version " + version + " is not found");
  if (!found->second.model)
    throw ServerError(StatusCode::unavailable,
                      "Request for unknown model: '" + name + "' version " + version + " is not at ready state");
  return found->second.model;
}

bool ModelManager::is_ready(const std::string& name) const {
  return !versions(name).empty();
}

std::vector<std::shared_ptr<Model>> ModelManager::all() const {
  std::vector<std::shared_ptr<Model>> models;
  const std::shared_lock lock(state_->mutex);
  for (const auto& [name, entry] : state_->entries)
    for (const auto& [number, version] : entry.versions)
      if (version.model) models.push_back(version.model);
  return models;
}

std::vector<std::string> ModelManager::versions(const std::string& name) const {
  std::vector<std::string> numbers;
  const std::shared_lock lock(state_->mutex);
  const auto at = state_->entries.find(name);
  if (at == state_->entries.end()) return numbers;
  for (const auto& [number, version] : at->second.versions)
    if (version.model) numbers.push_back(std::to_string(number));
  return numbers;
}

std::vector<IndexEntry> ModelManager::index(bool ready_only) const {
  std::map<std::string, ModelFolder> found;
  if (!ready_only) found = scan_repositories(state_->options.repositories);
  std::vector<IndexEntry> index;
  const std::shared_lock lock(state_->mutex);
  for (const auto& [name, entry] : state_->entries) {
    found.erase(name);
    for (const auto& [number, version] : entry.versions)
      if (!ready_only || version.state == ModelState::ready)
        index.push_back({name, std::to_string(number), version.state, version.reason});
  }
  for (const auto& [name, folder] : found) index.push_back({name, "", ModelState::unknown, ""});
  std::stable_sort(index.begin(), index.end(),
                   [](const IndexEntry& a, const IndexEntry& b) { return a.name < b.name; });
  return index;
}

bool ModelManager::ready() const {
  if (!state_->started) return false;
  // A model that a client loads later makes nobody else wait.
  const std::shared_lock lock(state_->mutex);
  return std::none_of(state_->entries.begin(), state_->entries.end(), [](const auto& item) {
    const State::Entry& entry = item.second;
    return entry.failed;
  });
}

void ModelManager::load(const std::string& name, const LoadOverrides& overrides) {
  if (state_->options.control != ModelControl::explicit_)
    throw ServerError(StatusCode::unavailable,
                      state_->options.control == ModelControl::poll
                          ? "explicit model load / unload is not allowed if polling is enabled"
                          : "explicit model load / unload is not allowed without --model-control-mode=explicit");
  state_->load(name, overrides);
}

void ModelManager::unload(const std::string& name, bool dependents) {
  if (state_->options.control != ModelControl::explicit_)
    throw ServerError(StatusCode::unavailable,
                      state_->options.control == ModelControl::poll
                          ? "explicit model load / unload is not allowed if polling is enabled"
                          : "explicit model load / unload is not allowed without --model-control-mode=explicit");
  state_->unload(name, dependents);
}

void ModelManager::poll() {
  state_->poll();
}

void ModelManager::drain(int seconds) {
  state_->draining = true;
  state_->clear();
  if (!state_->reaper.wait_for_all(std::chrono::seconds(std::max(0, seconds))))
    log(LogKind::warning, "requests were not answered within --exit-timeout-secs=" + std::to_string(seconds));
}

}  // namespace camshaft::server
