#include "onnx/quantization.h"

#include <fmt/format.h>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

ValueId repeat_blocks(ConvertContext& c, ValueId parameter, ValueId x, int64_t axis, int64_t block) {
  const Shape shape = c.shape(parameter);
  const Shape whole = c.shape(x);
  const auto at = static_cast<size_t>(axis);
  for (size_t i = 0; i < whole.size(); ++i) {
    const bool fits = i == at || shape[i] == Dim(1) || !ops::provably_different(shape[i], whole[i]);
    if (!fits)
      c.invalid(fmt::format("axis {} has size {} in the scale or zero point and {} in the input", i, shape[i].str(),
                            whole[i].str()));
  }
  if (shape[at] == whole[at] || shape[at] == Dim(1)) return parameter;
  if (block == 0) {
    const auto size = whole[at].as_constant(), blocks = shape[at].as_constant();
    if (!size || !blocks || *blocks <= 0 || *size % *blocks != 0)
      c.invalid(fmt::format("block_size is missing: {} blocks for {} elements along axis {}", shape[at].str(),
                            whole[at].str(), axis));
    block = *size / *blocks;
  }
  if (ops::provably_different(shape[at], ceil_div(whole[at], block)))
    c.invalid(fmt::format("{} elements along axis {} are not {} blocks of {}", whole[at].str(), axis, shape[at].str(),
                          block));
  Shape split = shape;
  split.insert(split.begin() + axis + 1, Dim(1));
  const ValueId columns = c.reshape(parameter, split);
  split[at + 1] = block;
  const ValueId repeated = c.add(ops::Expand{split}, {columns});
  Shape joined = shape;
  joined[at] = shape[at] * Dim(block);
  const ValueId out = c.reshape(repeated, joined);
  if (joined[at] == whole[at]) return out;
  return c.add(ops::Slice{{axis}, {Dim(0)}, {whole[at]}, {1}}, {out});
}

}  // namespace

ValueId align_parameter(ConvertContext& c, ValueId parameter, ValueId x, int64_t axis, int64_t block) {
  const int64_t rank = c.rank(parameter), whole = c.rank(x);
  if (block < 0) c.invalid(fmt::format("block_size {} is negative", block));
  if (rank == 0) return parameter;
  if (rank == 1 && c.dim(parameter, 0) == Dim(1)) return c.reshape(parameter, {});
  if (rank > 1 && rank == whole) return repeat_blocks(c, parameter, x, c.axis(axis, whole), block);
  if (rank != 1)
    c.invalid(fmt::format("a scale or zero point has {} axes; for an input of {} axes it has 0, 1 or {}", rank, whole,
                          whole));
  axis = c.axis(axis, whole);
  if (block != 0 && whole == 1) return repeat_blocks(c, parameter, x, axis, block);
  if (ops::provably_different(c.dim(parameter, 0), c.dim(x, axis)))
    c.invalid(fmt::format("a scale or zero point has {} elements, axis {} of the input {}", c.dim(parameter, 0).str(),
                          axis, c.dim(x, axis).str()));
  Shape shape(static_cast<size_t>(whole - axis), Dim(1));
  shape[0] = c.dim(parameter, 0);
  return c.reshape(parameter, std::move(shape));
}

ValueId dequantize(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point, DType to) {
  ValueId value = x;
  // In i32 the difference is exact where f32 would round before it.
  if (c.dtype(x) == DType::i32 && zero_point != no_value) value = c.add(F::sub, {value, zero_point});
  value = c.cast(value, DType::f32);
  if (c.dtype(x) != DType::i32 && zero_point != no_value)
    value = c.add(F::sub, {value, c.cast(zero_point, DType::f32)});
  return c.cast(c.add(F::mul, {value, c.cast(scale, DType::f32)}), to);
}

ValueId to_steps(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point, DType precision, bool rounds) {
  return steps_of_quotient(c, c.add(F::div, {c.cast(x, precision), c.cast(scale, precision)}), zero_point, rounds);
}

ValueId steps_of_quotient(ConvertContext& c, ValueId quotient, ValueId zero_point, bool rounds) {
  ValueId value = rounds ? c.add(F::round, {quotient}) : quotient;
  value = c.cast(value, DType::f32);
  return zero_point == no_value ? value : c.add(F::add, {value, c.cast(zero_point, DType::f32)});
}

ValueId saturated(ConvertContext& c, ValueId steps, DType to) {
  // Casts to whole bytes saturate by themselves.
  if (!is_packed(to) || !is_integer(to)) return steps;
  const double count = 1 << bit_width(to), lowest = is_signed(to) ? -count / 2 : 0;
  const ValueId above = c.add(F::max, {steps, c.scalar(DType::f32, lowest)});
  return c.add(F::min, {above, c.scalar(DType::f32, lowest + count - 1)});
}

ValueId store_steps(ConvertContext& c, size_t i, ValueId steps, DType to) {
  return c.result_at(i, ops::Cast{to}, {saturated(c, steps, to)});
}

DynamicQuantization quantize_dynamically(ConvertContext& c, ValueId x) {
  const Values out = c.add_all(ops::DynamicQuantize{}, {x}, 3);
  return {out[0], out[1], out[2]};
}

ValueId shifted(ConvertContext& c, ValueId x, ValueId zero_point) {
  const ValueId wide = c.cast(x, DType::i32);
  return zero_point == no_value ? wide : c.add(F::sub, {wide, c.cast(zero_point, DType::i32)});
}

}  // namespace camshaft::onnx
