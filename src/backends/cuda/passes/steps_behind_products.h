#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Makes what quantises the result of a floating-point product or convolution, and is its only reader, a part of it:
/// the 8 bits are written, and no tensor of two or four times their size. (fuse() leaves it to itself, as kernels of
/// other backends write one type.)
void steps_behind_products(Graph& graph, const PassContext& context);
inline constexpr Pass steps_behind_products_pass = {
    .name = "steps_behind_products", .run = steps_behind_products, .needs = {Fact::regions}, .before = {Fact::storage}};

}  // namespace camshaft
