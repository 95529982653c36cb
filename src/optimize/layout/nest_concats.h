#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A concatenation that begins with the operands of an earlier one takes that one's result instead: the layers of a
/// dense block each join all features so far, which are then columns of one tensor that grows (place_slices).
void nest_concats(Graph& graph, const PassContext& context);
inline constexpr Pass nest_concats_pass = {
    .name = "nest_concats", .run = nest_concats, .needs = {Fact::layouts}, .before = {Fact::regions}};

}  // namespace camshaft
