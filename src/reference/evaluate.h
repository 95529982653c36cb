// The reference evaluation of operators and of whole graphs: constant folder, fallback and judge.
#pragma once

#include <functional>

#include "ir/graph.h"
#include "reference/rounding.h"

namespace camshaft {

/// Runs one operator on host tensors, by the member `evaluate` of its struct. Throws what that throws, and
/// Error(internal) for an operator that is not in ops::AllOperators.
std::vector<Tensor> evaluate(const Op& op, const EvalContext& context);

struct EvaluateOptions {
  /// Called for every node after it ran, with its outputs before noise, which it may replace by others of the same
  /// type.
  std::function<void(const Node&, std::vector<Tensor>&)> observer;
  /// Moves the results of every operator: shows how far rounding alone can move a model's outputs.
  RoundingNoise noise;
  /// The same within bodies of loops and branches, which are computed in f32 where what is around them is not.
  RoundingNoise noise_of_bodies;
  uint64_t noise_seed = 0;
  /// Of a node's results, where that is not `noise`.
  std::function<RoundingNoise(const Node&)> noise_of;
  /// Looked at before every node and within large ones, see cancellation_point(); throws Error(cancelled).
  const Cancellation* cancellation = nullptr;
  /// Symbols bound from outside (of a body); those of the inputs' shapes are bound in addition.
  SymbolBindings bindings;
  /// Whether what containers among the inputs hold is looked at. A body is given what operators made, each time.
  bool checks_elements = true;
};

/// Runs a graph on host tensors, one operator after another, freeing what is no longer needed. `inputs` in the order of
/// graph.inputs. Throws Error(invalid_argument) when an input's dtype or shape does not fit.
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, ThreadPool& pool,
                             const EvaluateOptions& options = {});

/// Binds the symbols of `shape` that are plain names to `dims`, and checks every other dim against the bindings.
/// Throws Error(invalid_argument) naming `what` and both shapes.
void bind_symbols(const Shape& shape, const Dims& dims, const std::string& what, SymbolBindings& bindings);

}  // namespace camshaft
