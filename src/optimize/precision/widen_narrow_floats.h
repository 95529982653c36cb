#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Computes in f32 what a model has in f16 and bf16, for backends that have no kernels for these: contractions, norms,
/// reductions, pointwise operators and their like read and give f32, and so do moves of what is in f32 already. The
/// graph's inputs and outputs keep their types, as does all that only moves elements or has no kernel in f32 either;
/// conversions stand where the two meet.
///
/// What passes between those operators is then neither rounded to the narrow type nor lost beyond its range. But what a
/// model converts to the narrow type and back, with nothing but moves between, it means to round: both conversions
/// stay.
void widen_narrow_floats(Graph& graph, const PassContext& context);
inline constexpr Pass widen_narrow_floats_pass = {
    .name = "widen_narrow_floats", .run = widen_narrow_floats, .before = {Fact::regions}};

}  // namespace camshaft
