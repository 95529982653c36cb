#pragma once

#include <functional>

#include "optimize/analysis/quantized.h"
#include "optimize/pass.h"

namespace camshaft {

/// Computes convolutions and products of what Dequantizes give as sums of 8-bit products, which a scale makes real:
/// Σ (x - x_zero)·x_scale·(w - w_zero)·w_scale = x_scale·w_scale · Σ (x - x_zero)·(w - w_zero). A Quantize behind one,
/// or behind bounds (ReLU, Clip) behind it, takes its scale into that factor, so that what follows the sums is one
/// multiplication, a bias and a rounding; bounds that steps cannot leave are dropped.
///
/// Taken are steps of i8 and u8 with one scale for x, and one or one for each output channel (column) for the weights.
/// A bias in steps of x_scale·w_scale is added to the sums, any other in f32. What is longer than i32 can sum, or has
/// other parameters, stays. Results differ by the rounding of f32 sums, of which the integer ones have none.
void integer_products(Graph& graph, const PassContext& context);

/// Whether a backend computes a convolution or a product (ops::Conv, ops::MatMul) of these operands as integers.
using TakesSteps = std::function<bool(const Graph&, const Op&, const Steps& x, const Steps& weights)>;
/// The same of those alone that `takes` says, and of 8-bit floats of one type, without zero points: Σ x·w is then a sum
/// of f32, whose rounding is that of the kernel (ops::Float8MatMul).
void integer_products_where(Graph& graph, const TakesSteps& takes);

inline constexpr Pass integer_products_pass = {
    .name = "integer_products", .run = integer_products, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
