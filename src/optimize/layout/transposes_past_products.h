#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A transpose that leaves the last axis where it is and a product with one constant matrix, with what is added to its
/// columns, may change places: T(x) · w + b = T(x · w + b). They do where the transpose then meets another one, so that
/// the two are one, or become the way in which an attention reads or writes: before products whose result is reshaped
/// and transposed, and behind those whose operand is. What makes bytes of the operand stays before the product.
/// (Attention that was written for sequences before batches has a transpose on both sides: ViT-B/16, batch 32, on an
/// H200: 24 transposes and 12 additions of 128 kernels.)
void transposes_past_products(Graph& graph, const PassContext& context);
inline constexpr Pass transposes_past_products_pass = {.name = "transposes_past_products",
                                                       .run = transposes_past_products,
                                                       .before = {Fact::attention, Fact::joined, Fact::regions}};

}  // namespace camshaft
