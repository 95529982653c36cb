// Which models are loaded, and which versions of them.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/core/kept_engines.h"
#include "server/core/model.h"
#include "server/core/repository.h"

namespace camshaft::server {

enum class ModelControl { none, poll, explicit_ };
enum class ModelState { unknown, ready, unavailable, loading, unloading };

/// "READY", …: as both protocols have it.
std::string_view state_name(ModelState state);
/// Throws ServerError(unsupported) where a request names one of several repositories, which none may.
void refuse_repository_name(const std::string& repository);

struct IndexEntry {
  std::string name, version;
  ModelState state = ModelState::unknown;
  std::string reason;
};

struct ModelManagerOptions {
  std::vector<std::filesystem::path> repositories;
  ModelControl control = ModelControl::none;
  std::vector<std::string> startup_models;  ///< with `explicit_`; "*": all
  int poll_seconds = 15;
  bool strict_config = false;  ///< config.pbtxt must be complete
  std::string config_name;     ///< takes configs/<name>.pbtxt where there is one
  int load_threads = 4;
  EngineCache engine_cache;  ///< engines built from model.onnx
  std::string device;        ///< of models that do not say: "cpu", "cuda"
  std::vector<std::string> backend_config;
  uint64_t cache_bytes = 0;        ///< of the response cache; 0: none
  bool latency_summaries = false;  ///< models keep quantiles of their latencies
  bool rate_limit = false;         ///< instances wait for the resources that their groups name
  /// Pools by --rate-limit-resource: name and device (below 0: of all), and how many there are.
  std::map<std::pair<std::string, int>, uint64_t> rate_limit_resources;
};

/// What clients may bring with a load in place of what lies in the repository.
struct LoadOverrides {
  std::optional<std::string> config_json;
  std::map<std::string, std::string> files;  ///< "1/model.onnx" → bytes
};

/// Safe from several threads. A load that fails leaves the versions of before in place.
class ModelManager {
 public:
  explicit ModelManager(ModelManagerOptions options);
  /// Waits until all requests are answered.
  ~ModelManager();

  /// Loads what the control mode says, and starts to poll. Models that fail are in the index, with the reason.
  void start();
  /// Throws ServerError: not_found for no such model, unavailable for one that is not loaded.
  std::shared_ptr<Model> find(const std::string& name, const std::string& version) const;
  /// Whether find() would give one.
  bool is_ready(const std::string& name, const std::string& version) const;
  /// The loaded versions of a model, or the one that is named; without a name all there are. Throws what find() does.
  std::vector<std::shared_ptr<Model>> select(const std::string& name, const std::string& version) const;
  /// Whether a version of it is.
  bool is_ready(const std::string& name) const;
  /// All that are loaded, by name and version.
  std::vector<std::shared_ptr<Model>> all() const;
  /// Versions that are ready.
  std::vector<std::string> versions(const std::string& name) const;
  std::vector<IndexEntry> index(bool ready_only) const;
  /// Whether all that should be loaded at the start are ready.
  bool ready() const;

  /// Throws ServerError(unavailable) where the control mode is not `explicit_`, and what goes wrong with the model.
  void load(const std::string& name, const LoadOverrides& overrides);
  void unload(const std::string& name, bool dependents);
  /// Looks for changes now, as SIGHUP asks.
  void poll();
  /// Takes no further requests; returns once those that were taken are answered, or after `seconds`.
  void drain(int seconds);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft::server
