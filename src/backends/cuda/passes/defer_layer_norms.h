#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Layer norms between matrix products become a part of these: the product before gives the moments of its rows beside
/// them (row_moments), and each product behind reads the rows as they are. With y = (x - m) · f · g + b, where m and f
/// are numbers of a row (row_norm), y · W = (x · gW - m · u) · f + v, where u are the sums of gW over its rows and v is
/// b · W; a y that is added to a product's result is computed there. For f16 and bf16, that is behind
/// lower_precision(): y is not rounded any more, gW is.
///
/// Only where all who read y are products with constant matrices that can do so, x is computed by one, and it has not
/// so many rows that products of libraries, which have no place for norms, may gain more than this.
void defer_layer_norms(Graph& graph, const PassContext& context);
inline constexpr Pass defer_layer_norms_pass = {.name = "defer_layer_norms",
                                                .run = defer_layer_norms,
                                                .needs = {Fact::regions, Fact::storage},
                                                .before = {Fact::chains}};

}  // namespace camshaft
