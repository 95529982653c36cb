#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// What only products read that round it to bf16 (ops::takes_rounded()) is rounded by the layer that writes it, a
/// product or pointwise operators: half of it is written and read, and nothing rounds it in a pass of its own. Results
/// are the same. Of products of constant weights without groups, whose rows are even and as long as a tile is wide.
void store_rounded(Graph& graph, const PassContext& context);
inline constexpr Pass store_rounded_pass = {
    .name = "store_rounded", .run = store_rounded, .needs = {Fact::regions}, .settles = {Fact::storage}};

}  // namespace camshaft
