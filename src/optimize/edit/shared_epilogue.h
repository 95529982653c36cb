// What several parallel contractions have behind them in common.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// One operand of a step of an epilogue that can be applied to several results side by side.
struct EpilogueOperand {
  enum class Kind : uint8_t { result, number, columns };
  Kind kind = Kind::result;
  size_t result = 0;            ///< of which step, counted from one; 0: what the epilogue begins with
  uint64_t number = 0;          ///< the bits of the double
  ValueId constant = no_value;  ///< of numbers and columns; does not count for equality
  bool operator==(const EpilogueOperand& other) const {
    return kind == other.kind && result == other.result && number == other.number;
  }
};

struct EpilogueStep {
  Op op;
  std::vector<EpilogueOperand> operands;
  bool operator==(const EpilogueStep&) const = default;
};

/// Pointwise operators behind a contraction that take, besides what they compute themselves, single numbers and one
/// number a column only. `nodes` has the node of each step.
struct SharedEpilogue {
  std::vector<EpilogueStep> steps;
  std::vector<int32_t> nodes;
  ValueId result = no_value;  ///< what it ends with
};

/// The longest one that begins with `first` and leaves one value open, as fuse() would take it.
SharedEpilogue shared_epilogue(const Graph& graph, const Uses& uses, ValueId first);

/// A constant with one number for each column of `type`: its last axis.
bool is_of_columns(const Graph& graph, ValueId id, const TensorType& type);

}  // namespace camshaft
