#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Marks matrix products of graphs whose attention is over blocks: sequences come and go there between steps, and each
/// is to have the same text whichever others share its steps.
void batch_invariant_products(Graph& graph, const PassContext& context);
inline constexpr Pass batch_invariant_products_pass = {
    .name = "batch_invariant_products", .run = batch_invariant_products, .needs = {Fact::regions}};

}  // namespace camshaft
