#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Products of f32, f16 or bf16 by what a Dequantize makes of constant steps of at most 8 bits become products with the
/// steps: a machine reads them from memory as narrow as the model has them. Taken are one scale for all, one a column,
/// and one for each block along what is summed over, of a multiple of 16 elements or of them all; zero points likewise.
/// What has other parameters, or steps that are no constants, stays. Rounding by blocks (RoundBlocks) before such a
/// product becomes part of it.
///
/// Runs where products of 8 bits have been taken (integer_products). The weights are the same numbers; sums are
/// rounded in another order.
void weight_only_products(Graph& graph, const PassContext& context);
inline constexpr Pass weight_only_products_pass = {
    .name = "weight_only_products", .run = weight_only_products, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
