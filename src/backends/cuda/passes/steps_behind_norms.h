#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes what quantises the result of a layer norm a part of it, whoever else reads the rows: they are then given
/// beside the bytes. Channels may be evened out by factors before.
void steps_behind_norms(Graph& graph, const PassContext& context);
inline constexpr Pass steps_behind_norms_pass = {
    .name = "steps_behind_norms", .run = steps_behind_norms, .needs = {Fact::regions}};

}  // namespace camshaft
