// How far each tensor of an engine is from the model, for people to look at.
#pragma once

#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "builder/verification.h"
#include "ir/graph.h"
#include "runtime/engine.h"

namespace camshaft {

struct TensorError {
  std::string layer;  ///< the engine's layer that computed it, in words
  OutputError error;  ///< named after the tensor
};

/// Of the tensors that `engine` and `model` (the graph as imported) have in common, and of the outputs, in the order in
/// which the model computes them. The reference evaluation goes on with what the engine computed, as verify_layers()
/// has it: an error is of the layers since the tensors before, and does not grow from layer to layer. Nothing is
/// excused by rounding here. Only the first 4 GiB of tensors are looked at. Throws Error(invalid_argument) where the
/// reference refuses the inputs.
std::vector<TensorError> tensor_errors(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                                       double tolerance, ThreadPool& pool, const Cancellation& cancellation = {});

}  // namespace camshaft
