#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A 1x1 convolution mixes channels and a resize mixes pixels, so they may change places: where an image is enlarged,
/// alone or as an operand of a concatenation, and then convolved, it is convolved first. The operands of a
/// concatenation get their part of the weights each, and what they give is added up: conv(concat(a, up(b))) = conv_a(a)
/// + up(conv_b(b)).
///
/// Only for images that grow at least twofold and have enough channels for the saved multiplications to pay for the
/// additions.
void resize_after_conv(Graph& graph, const PassContext& context);
inline constexpr Pass resize_after_conv_pass = {
    .name = "resize_after_conv", .run = resize_after_conv, .before = {Fact::regions}};

}  // namespace camshaft
