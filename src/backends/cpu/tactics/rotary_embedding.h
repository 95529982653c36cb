// The tactic for rotary position embeddings.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// Whether the node gathers rows of a table that the kernel reads where they are.
bool gathers_rows(const Graph& graph, const Node& node);

extern const CpuTactic rotary_embedding_tactic;

}  // namespace camshaft::cpu
