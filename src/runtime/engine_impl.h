// What an Engine holds.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "compile/backend.h"
#include "compile/explanation.h"
#include "compile/plan/plan.h"
#include "engine/keep.h"
#include "ir/replaceable.h"
#include "runtime/arena_pool.h"
#include "runtime/engine.h"
#include "runtime/weight_stream.h"

namespace camshaft {

/// An engine with one set of weights. Nothing of it changes once it is made.
struct Engine::Impl {
  std::shared_ptr<const Backend> backend;
  Graph graph;                        ///< optimised, with regions
  std::vector<TacticChoice> tactics;  ///< of each node of the graph; empty for views
  std::shared_ptr<PackedConstants> packed;
  Plan plan;
  std::vector<Profile> profiles;
  SymbolBindings optimum;  ///< the sizes that tactics were chosen for
  std::map<std::string, std::string> metadata;
  std::vector<LayerExplanation> explanations;  ///< of each node of the graph, or none
  std::shared_ptr<const void> storage;         ///< keeps mapped weights alive
  /// The file that it was loaded from; null where its weights are in memory: of a build, a refit, or bytes.
  std::shared_ptr<const MappedFile> file;
  std::shared_ptr<WeightStream> stream;  ///< brings in its weights; null: they are all there
  int64_t weight_budget = -1;            ///< bytes; below 0: none
  /// Of an engine that can be refitted: the initializers of its model.
  std::optional<std::vector<InitializerRecord>> initializers;
  /// Whether files of it have no weights that a refit can bring.
  bool saves_stripped = false;
  /// Whether there are weights that a refit must bring: there is no plan yet.
  bool lacks_weights = false;

  std::vector<TensorInfo> inputs, outputs;

  /// Fills what follows from the rest: tactics, inputs, outputs. `defers_weights`: somebody else places those that a
  /// device reads.
  void finish(bool defers_weights = false);
  /// Inputs and outputs alone.
  void describe_borders();
  /// Of constants, packed and plain, that runs read.
  size_t weight_bytes() const;
  /// Of intermediate tensors, on all devices together: see MemoryInfo.
  int64_t arena_bytes() const;
};

/// What copies of an engine share: which weights they have now.
class Engine::Shared {
 public:
  explicit Shared(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> current() const;
  /// Takes effect for each context at its next run, and for what asks for current() from now on. Throws Error(internal)
  /// where `before` is not the current one.
  void replace(const std::shared_ptr<const Impl>& before, std::shared_ptr<const Impl> impl);

  // What a refit does not change.
  const std::vector<TensorInfo> inputs, outputs;
  const std::vector<Profile> profiles;
  const std::map<std::string, std::string> metadata;
  const int64_t ranks;             ///< that run at the same time; 0: it runs alone
  mutable ArenaPool arenas;        ///< of the contexts that share their memory
  mutable std::mutex refit_mutex;  ///< of those who make an Impl out of the current one to replace it

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Impl> current_;
};

/// Of each value of an engine's graph what a file has of it, fallbacks of packed forms aside: see PackedConstants.
std::vector<Keep> kept_constants(const Engine::Impl& engine);
/// Engine::load() of a file that is mapped or in memory already.
Engine load_engine(const std::shared_ptr<const MappedFile>& given, const LoadOptions& where = {});
/// What Engine::save() writes.
std::vector<std::byte> engine_bytes(const Engine& engine);
/// The same with the weights that a refit can replace or without, however the engine was built. Throws
/// Error(invalid_argument) where it has none, or where no refit could bring them back.
std::vector<std::byte> engine_bytes_with(const Engine& engine, bool weights);

/// The symbols of the graph's inputs bound to a profile's optimum. Inputs that the profile does not name are left out.
SymbolBindings bind_profile(const Graph& graph, const Profile& profile);
/// The same of each profile behind the first.
std::vector<SymbolBindings> bind_further_profiles(const Graph& graph, const std::vector<Profile>& profiles);
/// Throws Error(invalid_argument) when a profile names an unknown input, has a wrong rank, contradicts a fixed size, or
/// is not ordered min <= opt <= max.
void check_profile(const Graph& graph, const Profile& profile);

}  // namespace camshaft
