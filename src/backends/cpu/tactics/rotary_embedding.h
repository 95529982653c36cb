// The tactic for rotary position embeddings.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic rotary_embedding_tactic;

}  // namespace camshaft::cpu
