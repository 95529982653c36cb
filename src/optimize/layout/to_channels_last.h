#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts 1-D and 2-D convolutions and pooling, and what lies between them, into channels-last form. Weights stay as they
/// are.
///
/// Transposes are not placed where layouts change but put off: a value is a tensor in memory and a permutation still to
/// be applied. Operators to which the layout is all the same work on the tensor as it lies and pass the permutation
/// on; transposes and reshapes of the model that split, merge or keep the channel axis are absorbed, also those that
/// lead from tokens to an image; the rest gets its operand as the model has it, by one transpose that all such readers
/// share.
void to_channels_last(Graph& graph, const PassContext& context);
inline constexpr Pass to_channels_last_pass = {.name = "to_channels_last",
                                               .run = to_channels_last,
                                               .before = {Fact::attention, Fact::joined, Fact::regions},
                                               .settles = {Fact::layouts}};

}  // namespace camshaft
