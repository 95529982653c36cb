#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A gather_elements along the last axis whose indices are the same for all positions of the leading axes becomes a
/// gather, which has them once: relative positions (an index that is a difference of ranges, clamped, or any other
/// function of row and column) that an exporter expands to batch and heads. The axis before the last becomes one with
/// it, an index of row i being i · size + index. Only where the indices are known to lie in the axis: beyond its end
/// lies another row then, and no kernel would notice.
void share_gather_indices(Graph& graph, const PassContext& context);
inline constexpr Pass share_gather_indices_pass = {
    .name = "share_gather_indices", .run = share_gather_indices, .before = {Fact::regions}};

}  // namespace camshaft
