#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes one index map of moves that follow each other (transposes, slices, constant paddings, gathers of evenly spaced
/// indices, rolls, and reshapes between them), so that memory is passed over once and nothing lies in between. Chains
/// of transposes alone are compose_transposes'. What a product of two activations reads is laid out as its kernels like
/// it: rows that are neighbours in memory stay so, and the product reads them transposed.
void compose_moves(Graph& graph, const PassContext& context);
inline constexpr Pass compose_moves_pass = {
    .name = "compose_moves", .run = compose_moves, .needs = {Fact::attention, Fact::joined}, .before = {Fact::regions}};

}  // namespace camshaft
