#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Computes those convolutions and products of Dequantizes as sums of bytes (see integer_products()) that the tensor
/// cores have kernels for: by constant weights without zero points, of which there is a multiple of 16 along what is
/// summed, with one constant zero point of the data. The others stay floating-point.
///
/// Weights with zero points lose them where what is left still has 8 bits.
void byte_products(Graph& graph, const PassContext& context);
inline constexpr Pass byte_products_pass = {
    .name = "byte_products", .run = byte_products, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
