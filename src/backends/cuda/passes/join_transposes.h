#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A transpose beside a cast (or a pointwise region of one operand), of which the one alone reads the other, becomes
/// one region with it, whose body transposes first: images that come with few channels first and in another type. Only
/// where the last axis of the result, or of the operand, has few elements: then neighbours still lie in few lines.
/// For backends whose pointwise kernels read through any strides.
void join_transposes(Graph& graph, const PassContext& context);
inline constexpr Pass join_transposes_pass = {.name = "join_transposes",
                                              .run = join_transposes,
                                              .needs = {Fact::regions, Fact::storage},
                                              .before = {Fact::chains},
                                              .settles = {Fact::images}};

}  // namespace camshaft
