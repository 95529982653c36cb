// The tactic "bands" for chains of convolutions.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// Inverted bottlenecks and parts of them (kernels/conv/conv_chain.h), for the chains that passes/chain_convolutions.h
/// makes.
extern const CpuTactic conv_chain_tactic;

}  // namespace camshaft::cpu
