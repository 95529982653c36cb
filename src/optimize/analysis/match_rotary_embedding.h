// Finds rotary position embeddings by what they compute of each element.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/rotary_embedding.h"

namespace camshaft {

/// An embedding that was found.
struct RotaryMatch {
  ops::RotaryEmbedding op;
  std::vector<ValueId> inputs;
  std::vector<std::string> sources;
};

/// The embedding whose result is that of node `n` of the graph; nullopt where that is none.
std::optional<RotaryMatch> match_rotary_embedding(const Graph& graph, const Uses& uses, int32_t n);

}  // namespace camshaft
