// Linear quantisation, for the converters of several groups: ops::Quantize and ops::Dequantize.
#pragma once

#include "ir/ops/quantize.h"
#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// A scale or zero point as the operators have it: one of a single element as a scalar. no_value stays.
ValueId parameter_of(ConvertContext& c, ValueId parameter);

/// The block size of a scale of x: `block`, or, where that is 0 and the scale has as many axes as x, by what the sizes
/// along `axis` say. invalid_model when they say nothing.
int64_t block_size(ConvertContext& c, ValueId scale, ValueId x, int64_t axis, int64_t block);

/// (x - zero_point) · scale, rounded to `to`: see ops::Dequantize. zero_point may be no_value; `axis` is not negative.
ValueId dequantize(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point, DType to = DType::f32,
                   int64_t axis = 0, int64_t block = 0);

/// Output i of the node: x in steps of the scale, as `op` says.
ValueId quantize(ConvertContext& c, size_t i, const ops::Quantize& op, ValueId x, ValueId scale, ValueId zero_point);

/// Output i of the node: numbers that already count steps, rounded and shifted by a zero point that is no_value or
/// broadcasts to them.
ValueId round_steps(ConvertContext& c, size_t i, ValueId steps, ValueId zero_point, DType to);

/// ops::DynamicQuantize of x: its steps (u8), their scale (f32) and zero point (u8).
struct DynamicQuantization {
  ValueId steps, scale, zero_point;
};
DynamicQuantization quantize_dynamically(ConvertContext& c, ValueId x);

/// x - zero_point in i32, which is exact for 8-bit and 16-bit types; zero_point may be no_value.
ValueId shifted(ConvertContext& c, ValueId x, ValueId zero_point);

}  // namespace camshaft::onnx
