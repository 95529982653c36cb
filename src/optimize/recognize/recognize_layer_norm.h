// Layer and root-mean-square normalisation, as exporters without an operator for it spell it out.
#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// d / √(mean(d·d) + ε) over the last axes becomes a layer norm, of x where d is x − mean(x), else one without the
/// mean; constant factors and a shift, one number an element of its rows, become its operands. The variance may also be
/// written mean(x·x) − mean(x)²: that loses digits where the mean is large, which the norm does not. x over its
/// Euclidean norm, of at least ε, becomes a clamped one. A norm between casts from and to a half type is one of that
/// type.
void recognize_layer_norm(Graph& graph, const PassContext& context);
inline constexpr Pass recognize_layer_norm_pass = {
    .name = "recognize_layer_norm", .run = recognize_layer_norm, .before = {Fact::regions}};

}  // namespace camshaft
