#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A product of normed rows that are seen in another shape, reshape(norm(x)) · W with W a constant matrix, becomes
/// reshape(norm(x) · W): the rows are the same ones, and norm and product are neighbours, as defer_layer_norms() needs
/// them. (Attention layers that take the sequence as their first axis turn [1, rows, n] into [rows, 1, n] there.) Of
/// regions those are taken whose other operands are vectors of a column each.
void reshape_behind_product(Graph& graph, const PassContext& context);
inline constexpr Pass reshape_behind_product_pass = {.name = "reshape_behind_product",
                                                     .run = reshape_behind_product,
                                                     .needs = {Fact::regions, Fact::storage},
                                                     .before = {Fact::chains}};

}  // namespace camshaft
