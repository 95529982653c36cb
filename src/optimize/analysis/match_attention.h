// Finds attention by what it computes: two products with a softmax between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/attention.h"

namespace camshaft {

/// How a mask has to be changed before the operator reads it.
struct MaskChange {
  bool inverted = false;  ///< false keeps the score
  double factor = 1;      ///< of float masks
};

/// An attention that was found, and the value that it computes.
struct AttentionMatch {
  ops::Attention op;
  std::vector<ValueId> inputs;
  std::vector<MaskChange> changes;  ///< of each mask
  ValueId factor = no_value;        ///< of the query or the key, before the operator reads it …
  size_t factor_of = 0;             ///< … and which of them: an index of inputs
  ValueId result = no_value;
  std::vector<std::string> sources;
};

/// The attention around the softmax that is node `softmax` of the graph, with the moves around it as strides of its
/// operands and result; nullopt where what surrounds the softmax is none. Then `reason` says why, unless the softmax is
/// of no product or none reads it.
std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, int32_t softmax,
                                              std::string& reason);

}  // namespace camshaft
