// Parallel contractions, and the one that takes their place.
#pragma once

#include "base/thread_pool.h"
#include "ir/rewriter.h"
#include "optimize/edit/shared_epilogue.h"

namespace camshaft {

/// One of them, and what it is part of.
struct ParallelContraction {
  int32_t node = -1;
  ValueId weights = no_value, bias = no_value;  ///< constants
  SharedEpilogue epilogue;                      ///< behind the bias, or behind `real`
  int64_t width = 0, first = 0;                 ///< its columns of the common result
  ValueId real = no_value;  ///< of a product of bytes: its sums as f32, which those of 8-bit floats are
  /// Of a product with weights of few bits: constants that lie as these do. A zero point may be one number, too.
  ValueId scale = no_value, zero = no_value;
};

/// Those that become one: of one operator and operand, with epilogues of equal steps.
struct ContractionGroup {
  std::vector<ParallelContraction> members;  ///< in the order of their columns
  int64_t width = 0;                         ///< of all together
  size_t axis = 0;                           ///< of the weights: that of the result's columns
  ValueId result = no_value;                 ///< the common one, once there is one
};

/// Appends the common contraction and epilogue to a graph that is being rewritten; returns the result. Nodes are the
/// rewriter's old ones; a bias that a member lacks is zero.
ValueId add_joined(Graph& graph, Rewriter& rewriter, const ContractionGroup& group, ThreadPool& pool);

}  // namespace camshaft
