#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Convolutions of channels-last images of few channels, whose pixels matrix units and wide copies cannot take one by
/// one: what makes the image (a cast, a transpose, pointwise expressions) fills its channels up with zeros, and hands
/// on pieces of 8 elements: two pixels of 4 channels beside each other, where strides and widths are even, as one of 8
/// with half the stride, or one of 8. The weights have zeros there. (ResNet-50's first convolution on an H200, batch
/// 128: 0.70 ms before, of 3.8 in all.)
///
/// An image that comes channels last, or that others read, too, is copied for it.
///
/// In the types of 16 bits.
void widen_images(Graph& graph, const PassContext& context);
inline constexpr Pass widen_images_pass = {.name = "widen_images",
                                           .run = widen_images,
                                           .needs = {Fact::regions, Fact::storage, Fact::images},
                                           .before = {Fact::chains}};

}  // namespace camshaft
