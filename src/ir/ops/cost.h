// How much work a node is, whatever way it is done: what its time is judged against.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace camshaft::ops {

/// Of one run of a node.
struct Cost {
  /// A multiplication and an addition count as two, by the direct algorithm: Winograd does with fewer. Only what
  /// contracts is counted (products, convolutions, recurrent layers): elsewhere the memory decides.
  double flops = 0;
  /// Of functions of one element that take an exponential or a polynomial as long (tanh, erf, log, sin, …): those of
  /// pointwise operators, one for each element of a softmax and for each score of attention, those of recurrent cells.
  double exponentials = 0;
  /// Of the operands of what is counted, and whether they are parts of matrices: a depthwise convolution has none.
  DType dtype = DType::f32;
  bool is_matrix = false;
  double constant_bytes = 0;    ///< of the constants read, as the graph has them
  double activation_bytes = 0;  ///< of the other inputs, each once, and the outputs

  double bytes() const { return constant_bytes + activation_bytes; }
};

/// The cost of a node of `graph` when its symbols have these values; nullopt where a size is known only after running.
/// A region's is that of its body, with inputs and outputs counted once, at its border; an `if` costs its dearer
/// branch. Of an operand that is picked from (gather, slice), no more is counted than is written; of a loop, nothing
/// inside.
std::optional<Cost> cost(const Graph& graph, const Node& node, const SymbolBindings& symbols);

}  // namespace camshaft::ops
