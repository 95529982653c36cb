#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Exporters write a group normalisation as reshape → instance normalisation → reshape back → scale → shift: this
/// makes one operator of it again. A scale and a shift per channel behind any group normalisation without its own
/// become its operands.
void recognize_group_norm(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_group_norm_pass = {
    .name = "recognize_group_norm", .run = recognize_group_norm, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
