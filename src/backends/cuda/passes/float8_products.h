#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Computes those convolutions and products of Dequantizes of 8-bit floats as sums of their products (see
/// integer_products_where()) that the tensor cores have kernels for: operands of one type (f8e4m3 or f8e5m2) without
/// zero points, by constant weights, of which there is a multiple of 16 along what is summed. The others stay
/// floating-point.
void float8_products(Graph& graph, const PassContext& context);
inline constexpr Pass float8_products_pass = {
    .name = "float8_products", .run = float8_products, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
