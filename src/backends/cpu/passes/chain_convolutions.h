#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts inverted bottlenecks into regions of kind chain (ops/region.h), for backends that compute them without writing
/// what lies between: a 1x1 convolution, the depthwise convolution that alone reads its result, and the 1x1 convolution
/// that alone reads that one's, or two of these neighbours. Each part, a plain node or a contract region as fuse() left
/// it, becomes a node of the chain's body. Likewise a multiplication of an image by one number a channel, which
/// squeeze and excite end with, and the 1x1 convolution that alone reads its result; and an image's transpose to
/// channels-last, the convolution that alone reads it, where that is not 1x1 and the image has at most four channels,
/// and the maximum of windows behind it. And a transposed convolution of at most 16 output channels a group, with the
/// transposes before and behind it.
///
/// The parts are channels-last convolutions of f32 images with constant weights; what all but the last take besides is
/// one element a channel. Whether a chain pays is not asked here: the tuner may take it apart again
/// (compile/tune/settle_chains.h).
void chain_convolutions(Graph& graph, const PassContext& context);
inline constexpr Pass chain_convolutions_pass = {.name = "chain_convolutions",
                                                 .run = chain_convolutions,
                                                 .needs = {Fact::layouts, Fact::regions},
                                                 .settles = {Fact::chains}};

}  // namespace camshaft
