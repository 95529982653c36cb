// What an Engine holds.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "compile/backend.h"
#include "compile/explanation.h"
#include "compile/plan/plan.h"
#include "runtime/arena_pool.h"
#include "runtime/engine.h"

namespace camshaft {

struct Engine::Impl {
  std::shared_ptr<const Backend> backend;
  Graph graph;                       ///< optimised, with regions
  std::vector<std::string> tactics;  ///< of each node of the graph; empty for views
  std::shared_ptr<PackedConstants> packed;
  Plan plan;
  std::vector<Profile> profiles;
  SymbolBindings optimum;  ///< the sizes that tactics were chosen for
  std::map<std::string, std::string> metadata;
  std::vector<LayerExplanation> explanations;  ///< of each node of the graph, or none
  std::shared_ptr<const void> storage;         ///< keeps mapped weights alive

  std::vector<TensorInfo> inputs, outputs;

  mutable ArenaPool arenas;  ///< of the contexts that share their memory

  /// Fills what follows from the rest: tactics, inputs, outputs.
  void finish();
  /// Of constants, packed and plain, that runs read.
  size_t weight_bytes() const;
};

/// Engine::load() of a file that is mapped or in memory already.
Engine load_engine(const std::shared_ptr<const MappedFile>& mapped, const LoadOptions& where = {});
/// What Engine::save() writes.
std::vector<std::byte> engine_bytes(const Engine& engine);

/// The symbols of the graph's inputs bound to a profile's optimum. Inputs that the profile does not name are left out.
SymbolBindings bind_profile(const Graph& graph, const Profile& profile);
/// Throws Error(invalid_argument) when a profile names an unknown input, has a wrong rank, contradicts a fixed size, or
/// is not ordered min <= opt <= max.
void check_profile(const Graph& graph, const Profile& profile);

}  // namespace camshaft
