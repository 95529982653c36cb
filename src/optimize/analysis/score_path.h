// The way of attention's scores: from the product that makes them to the softmax, and what is done to them on it.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// The elements of its only input stay where they are.
bool only_reshapes(const Node& node);

/// The nodes from a product to the value `softmax_input`, each read by the next one only: views, transposes, and
/// pointwise operators that keep the type. Empty where there is no such way.
std::vector<int32_t> score_path(const Graph& graph, const Uses& uses, ValueId softmax_input);

/// What one pointwise operator does to scores.
struct ScoreStep {
  enum class Kind : uint8_t {
    nothing,        ///< that a softmax sees
    scale,          ///< score · factor
    scale_by_head,  ///< score · mask, whose last two axes are of size 1
    tanh,
    add,   ///< score + factor · mask
    keep,  ///< where the bool mask is true (or false, when `inverted`), else `masked`
  };
  Kind kind = Kind::nothing;
  double factor = 1;
  ValueId mask = no_value;
  bool inverted = false;
  double masked = 0;
};

/// nullopt for what attention cannot do to its scores. `scores` is one of the node's inputs.
std::optional<ScoreStep> score_step(const Graph& graph, const Node& node, ValueId scores);

}  // namespace camshaft
