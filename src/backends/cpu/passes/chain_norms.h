#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Puts a layer or RMS norm, the cast from f16 or bf16 that it alone reads, and the cast to these that alone reads it,
/// into a region of kind chain (ops/region.h): the kernel widens and narrows rows in cache
/// (kernels/reduce/narrow_rows.h). Of norms at the ends of a model in f16, and those that stand alone. So it does with
/// a norm and the pointwise operators whose only result it alone reads (tactics/computed_norm.h): a sum of residuals
/// that no product takes into its epilogue is neither written nor read.
void chain_norms(Graph& graph, const PassContext& context);
inline constexpr Pass chain_norms_pass = {
    .name = "chain_norms", .run = chain_norms, .needs = {Fact::regions}, .settles = {Fact::chains}};

}  // namespace camshaft
