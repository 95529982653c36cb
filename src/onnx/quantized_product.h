// Products of quantised tensors: exact sums in i32, scaled afterwards.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// A scale or zero point of the left operand of a matrix product: one number, one a row, or in a shape that broadcasts.
ValueId row_parameter(ConvertContext& c, ValueId parameter, ValueId a);
/// Of the right operand: one number, one a column, or in a shape that broadcasts.
ValueId column_parameter(ConvertContext& c, ValueId parameter, ValueId b);
/// Of a convolution's weights: one number, or one an output channel, for a product [n, out, spatial...].
ValueId channel_parameter(ConvertContext& c, ValueId parameter, ValueId weights);

/// (a - a_zero) · (b - b_zero) in i32, with NumPy's rules for operands of one axis. Zero points as the inputs have
/// them, or no_value.
ValueId integer_matmul(ConvertContext& c, ValueId a, ValueId a_zero, ValueId b, ValueId b_zero);

/// The convolution of x - x_zero with weights - weights_zero in i32, with the node's attributes. `bias` is i32 or
/// no_value.
ValueId integer_conv(ConvertContext& c, ValueId x, ValueId x_zero, ValueId weights, ValueId weights_zero, ValueId bias);

/// Output 0 of QLinearConv before round_steps(): inputs x, its scale and zero point, weights, theirs, the output's,
/// bias. x is [n, c, spatial...].
ValueId qlinear_conv_steps(ConvertContext& c, ValueId x);

/// sum · a_scale · b_scale / y_scale: the quotient of scales first, in f32.
ValueId to_steps(ConvertContext& c, ValueId sum, ValueId a_scale, ValueId b_scale, ValueId y_scale);

}  // namespace camshaft::onnx
