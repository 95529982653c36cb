#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A depthwise convolution whose kernel is one element, with stride 1 and without padding, multiplies each channel by a
/// number and adds its bias: it becomes these two pointwise operators, which fuse with what is around them or fold into
/// another convolution's weights. The product is then rounded before the bias is added.
void conv_to_scale(Graph& graph, const PassContext& context);
inline constexpr Pass conv_to_scale_pass = {
    .name = "conv_to_scale", .run = conv_to_scale, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
