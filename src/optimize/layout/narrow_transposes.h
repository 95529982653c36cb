#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Transposes of which only slices are read move no more than what these have of each axis: queries and keys, where
/// attention reads the values from before. The slices stay, and are views as before.
void narrow_transposes(Graph& graph, const PassContext& context);
inline constexpr Pass narrow_transposes_pass = {
    .name = "narrow_transposes", .run = narrow_transposes, .needs = {Fact::attention}, .before = {Fact::regions}};

}  // namespace camshaft
