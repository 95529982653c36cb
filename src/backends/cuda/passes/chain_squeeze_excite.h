#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts squeeze and excite (Hu et al. 2018) into regions of kind chain (ops/region.h), for backends that have a kernel
/// for it: the mean of a channels-last image over its pixels, two 1x1 convolutions (or products of rows) behind it with
/// what follows each of them, and the pointwise operator or region that combines the second one's results with the
/// image. Each part, a plain node or a region as fuse() left it, becomes a node of the chain's body; nobody else reads
/// what lies between. Weights are constants.
///
/// Whether a chain pays is not asked here: the tuner may take it apart again (compile/tune/settle_chains.h).
void chain_squeeze_excite(Graph& graph, const PassContext& context);
inline constexpr Pass chain_squeeze_excite_pass = {.name = "chain_squeeze_excite",
                                                   .run = chain_squeeze_excite,
                                                   .needs = {Fact::layouts, Fact::regions},
                                                   .settles = {Fact::chains}};

}  // namespace camshaft
