#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts an expand of one element and the scatter that alone reads it, into the tensor that it makes, into a region of
/// kind chain (ops/region.h): the kernel fills memory (tactics/scatter.cpp). Kept for all runs and copied in each, the
/// zeros of MaxUnpool took as long as its values.
void chain_fills(Graph& graph, const PassContext& context);
inline constexpr Pass chain_fills_pass = {
    .name = "chain_fills", .run = chain_fills, .needs = {Fact::regions}, .settles = {Fact::chains}};

}  // namespace camshaft
