#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Removes moves that change nothing, merges chains of them, turns transposes that only move axes of size 1 into
/// reshapes, and lets pointwise operators broadcast instead of reading an Expand.
void simplify_moves(Graph& graph, const PassContext& context);
inline constexpr Pass simplify_moves_pass = {
    .name = "simplify_moves", .run = simplify_moves, .before = {Fact::regions}};

}  // namespace camshaft
