#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes one convolution of a sum or a difference of two that read the same value, where the kernel of one has a place
/// in that of the other; a value that is scaled and shifted channel by channel (batch normalisation) is one of a single
/// pixel. Networks that are trained in branches and run without (RepVGG, MobileOne, ACNet) become what they are run as,
/// though they were exported in branches.
///
/// Not before quantised layers are found: of merged kernels, whose largest weight is that of the value itself, 8 bits
/// leave less than of branches.
///
/// Kernels are added in f32, or in f64 where they are f64, and rounded once. Results change by rounding. Sums that
/// their type cannot hold stay as they are.
void merge_convolutions(Graph& graph, const PassContext& context);
inline constexpr Pass merge_convolutions_pass = {
    .name = "merge_convolutions", .run = merge_convolutions, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
