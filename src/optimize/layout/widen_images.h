#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Convolutions of channels-last images of few channels, whose pixels matrix units and wide copies cannot take one by
/// one: what makes the image (a cast, a transpose, pointwise expressions) fills its channels up with zeros, and hands
/// on pieces of 8 elements: two pixels of 4 channels beside each other, where strides and widths are even, as one of 8
/// with half the stride, or one of 8. The weights have zeros there. (ResNet-50's first convolution on an H200, batch
/// 128: 0.70 ms before, of 3.8 in all.)
///
/// Behind join_transposes(), for backends whose kernels gain from it: in the types of 16 bits.
void widen_images(Graph& graph, const PassContext& context);

}  // namespace camshaft
