// The reference evaluation of whole graphs: constant folder, fallback and judge.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace camshaft {

struct EvaluateOptions {
  /// Called for every node after it ran, with its outputs before noise, which it may replace by others of the same
  /// type.
  std::function<void(const Node&, std::vector<Tensor>&)> observer;
  /// Each f32 result is multiplied by 1 ± this, the sign at random from `noise_seed`: shows how far rounding alone can
  /// move a model's outputs. Results of f16 and bf16 move by as many units in the last place: 2^13 and 2^16 times this,
  /// or this where it is more than 2^-9 and 2^-6.
  double rounding_noise = 0;
  uint64_t noise_seed = 0;
  /// Looked at before every node, and between the iterations of loops; throws Error(cancelled).
  const Cancellation* cancellation = nullptr;
  /// Symbols bound from outside (of a body); those of the inputs' shapes are bound in addition.
  SymbolBindings bindings;
};

/// Runs a graph on host tensors, one operator after another, freeing what is no longer needed. `inputs` in the order of
/// graph.inputs. Throws Error(invalid_argument) when an input's dtype or shape does not fit.
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, ThreadPool& pool,
                             const EvaluateOptions& options = {});

/// Binds the symbols of `shape` that are plain names to `dims`, and checks every other dim against the bindings.
/// Throws Error(invalid_argument) naming `what` and both shapes.
void bind_symbols(const Shape& shape, const Dims& dims, const std::string& what, SymbolBindings& bindings);

}  // namespace camshaft
