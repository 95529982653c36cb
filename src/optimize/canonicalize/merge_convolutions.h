#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes one convolution of a sum or a difference of two that read the same value, where the kernel of one has a place
/// in that of the other; a value that is scaled and shifted channel by channel (batch normalisation) is one of a single
/// pixel. Networks that are trained in branches and run without (RepVGG, MobileOne, ACNet) become what they are run as,
/// though they were exported in branches.
///
/// Kernels are added in f32, or in f64 where they are f64, and rounded once. Results change by rounding. Sums that f16
/// cannot hold stay as they are where that is the type of the weights or of what is stored.
void merge_convolutions(Graph& graph, const PassContext& context);
/// The same before layers are quantised, where 8 bits are enough for the sum as for branches: where the value itself is
/// one, its weights are the largest by far. With 127 steps for the largest weight of an output channel, what they leave
/// as noise must be 30 dB below the weights. (Normal numbers have 42 dB.) What a refit may replace stays as it is.
void merge_quantizable_convolutions(Graph& graph, const PassContext& context);
inline constexpr Pass merge_convolutions_pass = {
    .name = "merge_convolutions", .run = merge_convolutions, .before = {Fact::layouts, Fact::regions}};
inline constexpr Pass merge_quantizable_convolutions_pass = {.name = "merge_quantizable_convolutions",
                                                             .run = merge_quantizable_convolutions,
                                                             .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
