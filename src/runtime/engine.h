// A compiled model.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/device_id.h"
#include "compile/tune/tuning.h"
#include "engine/profile.h"
#include "runtime/context.h"
#include "runtime/tensor_view.h"
#include "runtime/weight_streaming.h"

namespace camshaft {

/// A constant that a step reads.
struct LayerWeight {
  std::string name;
  std::string layout;  ///< of a packed form; empty: its own bytes
  int64_t bytes = 0;
  int64_t offset = -1;  ///< in the engine's file; -1: it is in memory
};

/// One step of an engine, for inspection.
struct LayerInfo {
  std::string name, op, tactic;
  std::string description;                   ///< the expression it computes
  std::vector<std::string> inputs, outputs;  ///< "name: f32[batch, 64]"
  std::vector<std::string> sources;          ///< the model's nodes it came from
  std::vector<TacticTrial> tried;            ///< the tactics that the build looked at, its first guess first
  std::vector<std::string> notes;            ///< why it was not fused with its neighbours
  bool at_binding = false;                   ///< depends on no input: runs once for each set of shapes
  std::vector<int64_t> reads;                ///< the layers whose results it reads, also through views, in their order
  std::vector<LayerWeight> weights;          ///< the constants that it reads
  int64_t streamed_bytes = 0;                ///< of weights that come in for each of its runs, in whole blocks
};

/// Bytes that an engine needs, at the optimum shapes of its first profile (or at its fixed shapes). Sizes that neither
/// says are taken as 1 along first axes and 64 along others, or less or more where the model does not accept that; the
/// arena's figures are 0 when it accepts none of those.
struct MemoryInfo {
  int64_t arena_bytes = 0;        ///< intermediate tensors, as planned
  int64_t arena_lower_bound = 0;  ///< the most that is alive at any one moment
  int64_t weight_bytes = 0;       ///< constants as stored
  int64_t kept_bytes = 0;         ///< what depends on the shapes alone: computed once for each set, and kept
};

struct LoadOptions {
  /// What the engine is to run on: "cpu", "cuda" (the first GPU) or a GPU by its number, "cuda:1". Of the kind that it
  /// was built for. Engine files name no GPU, and one runs on any: its kernels are compiled, and chosen again where
  /// need be, for the GPU that it is loaded for. Empty: of an engine for GPUs the one that is current in the calling
  /// thread (cudaSetDevice, torch.cuda.set_device), or the first when none is.
  std::string device;
  /// How many bytes of weights may be in memory at once, see WeightBudget; empty: all.
  std::string weight_budget = {};
};

/// A compiled model; cheap to copy, safe to use from several threads. Nothing of it changes but its weights, by a
/// Refitter, and the budget for them, which all copies and contexts see.
class Engine {
 public:
  /// Maps an engine file. Throws Error(io), Error(corrupt_engine), Error(invalid_argument) for a device of another kind
  /// than it was built for, and Error(unsupported) for one that is not there. An engine built on another machine loads
  /// too: its kernels are chosen again for this one.
  static Engine load(const std::string& path, const LoadOptions& options = {});
  /// Writes the engine file, through a temporary name: `path` is either complete or untouched. Throws Error(io).
  void save(const std::string& path) const;

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  const std::vector<Profile>& profiles() const;
  /// Facts about the build: model name and hash, versions, options, device.
  const std::map<std::string, std::string>& metadata() const;

  /// What it runs on: a GPU's memory that is bound must be this one's.
  DeviceId device() const;
  std::vector<LayerInfo> layers() const;
  /// Names of all tensors of the plan, for Context::set_tap.
  std::vector<std::string> tensor_names() const;
  MemoryInfo memory() const;

  /// From the next run of each context on no more bytes of weights are in memory at once than this, a WeightBudget as
  /// text: they come in from the engine's file, or, where a GPU reads them, from the host's memory to its own, ahead of
  /// the layers that read them. Results are the same, bit by bit. Weights of the host that are in memory, of an engine
  /// that was just built or refitted, go to a temporary file first. Waits for a run under way. Throws
  /// Error(invalid_argument) for a budget that is too small, with the least, and Error(out_of_memory).
  void set_weight_budget(const std::string& budget) const;
  WeightStreaming weight_streaming() const;

  /// Throws Error(invalid_argument) for a negative thread count.
  Context create_context(const ContextOptions& options = {}) const;

  /// Whether its weights can be replaced: it was built for that (BuildOptions::refit).
  bool is_refittable() const;

  struct Impl;
  class Shared;
  explicit Engine(std::shared_ptr<const Impl> impl);
  /// With its current weights. Those who look at more than one thing of it hold on to it.
  std::shared_ptr<const Impl> impl() const;
  const std::shared_ptr<Shared>& shared() const { return shared_; }

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace camshaft
