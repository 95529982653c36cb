// Linear quantisation, for the converters of several groups: q = saturate(round(x / scale) + zero_point).
//
// Everything is lowered to pointwise operators, so that constant weights fold and what is left fuses.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// A scale or zero point of x in a shape that broadcasts to x: a scalar as it is, one of a single element as a scalar,
/// a vector along `axis`, and with as many axes as x each element repeated `block` times along `axis` (0: by what the
/// sizes say). invalid_model when the sizes do not fit.
ValueId align_parameter(ConvertContext& c, ValueId parameter, ValueId x, int64_t axis = 1, int64_t block = 0);

/// (x - zero_point) · scale in f32, rounded to `to`. The parameters broadcast to x; zero_point may be no_value.
ValueId dequantize(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point, DType to = DType::f32);

/// round(x / scale) + zero_point in f32: to be cast to the quantised type, which saturates. The quotient is rounded to
/// `precision`. With `rounds` off, for quantised types that are floats, nothing is rounded to an integer.
ValueId to_steps(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point, DType precision = DType::f32,
                 bool rounds = true);

/// round(quotient) + zero_point in f32, as to_steps() ends.
ValueId steps_of_quotient(ConvertContext& c, ValueId quotient, ValueId zero_point, bool rounds = true);

/// `steps` clipped to the range of an integer type, unless casting to it does that.
ValueId saturated(ConvertContext& c, ValueId steps, DType to);

/// Output i of the node: `steps`, from to_steps(), as `to`.
ValueId store_steps(ConvertContext& c, size_t i, ValueId steps, DType to);

/// ops::DynamicQuantize of x: its steps (u8), their scale (f32) and zero point (u8).
struct DynamicQuantization {
  ValueId steps, scale, zero_point;
};
DynamicQuantization quantize_dynamically(ConvertContext& c, ValueId x);

/// x - zero_point in i32, which is exact for 8-bit and 16-bit types; zero_point may be no_value.
ValueId shifted(ConvertContext& c, ValueId x, ValueId zero_point);

}  // namespace camshaft::onnx
