#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Folds multiplications and additions of constants into the constant weights and the bias of a neighbouring
/// contraction:
///
/// - behind a convolution, per output channel (batch normalisation, a bias of its own node);
/// - before a convolution, per input channel; shifts only where there is no padding, which stays zero;
/// - around a matrix product, factors per column of the weights, and per row.
///
/// Scalar factors of both operands of a matrix product of two variables (attention's scale) are moved behind it.
///
/// Whole chains at once, in double, rounded once. Results change by rounding. Factors that would make weights too large
/// for their type, or too small for f16, stay where they are.
void fold_affine_into_contract(Graph& graph, const PassContext& context);
inline constexpr Pass fold_affine_into_contract_pass = {
    .name = "fold_affine_into_contract", .run = fold_affine_into_contract, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
