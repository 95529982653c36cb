// Finds attention by what it computes: two products with a softmax between them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "ops/attention.h"

namespace camshaft {

/// An attention that was found, and the value that it computes.
struct AttentionMatch {
  ops::Attention op;
  std::vector<ValueId> inputs;
  std::vector<bool> inverted;  ///< of masks: false keeps the score
  ValueId result = no_value;
  std::vector<std::string> sources;
};

/// The attention around the softmax that is node `softmax` of the graph, with the moves around it as strides of its
/// operands and result; nullopt where what surrounds the softmax is none.
std::optional<AttentionMatch> match_attention(const Graph& graph, const Uses& uses, int32_t softmax);

}  // namespace camshaft
