// Whole layers of the domain com.microsoft on quantised weights: attention and LSTM.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/quantization.h"
#include "onnx/quantized_product.h"
#include "onnx/recurrent.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// Weights [d, in, gates·hidden], transposed to ONNX's order and in f32; scales and zero points [d] or [d,
// gates·hidden].
ValueId lstm_weights(ConvertContext& c, size_t weights, size_t scale) {
  const ValueId w = c.input(weights);
  if (c.rank(w) != 3) c.invalid(fmt::format("input {} has {} axes, not 3", weights, c.rank(w)));
  const auto spread = [&](ValueId parameter) {
    if (parameter == no_value) return no_value;
    if (c.rank(parameter) != 1 && c.rank(parameter) != 2)
      c.invalid(fmt::format("a scale or zero point has {} axes, not 1 or 2", c.rank(parameter)));
    Shape shape = c.shape(parameter);
    shape.insert(shape.begin() + 1, Dim(1));
    if (shape.size() == 2) shape.emplace_back(1);
    return c.reshape(parameter, std::move(shape));
  };
  const ValueId wide = dequantize(c, w, spread(c.input(scale)), spread(c.input_or_none(scale + 1)));
  return c.add(ops::Transpose{{0, 2, 1}}, {wide});
}

// The input is rounded to 255 steps as ONNX Runtime does it; the state, which it also rounds at every step, is not.
Values dynamic_quantize_lstm(ConvertContext& c) {
  const DynamicQuantization q = quantize_dynamically(c, c.input(0));
  Values inputs{dequantize(c, q.steps, q.scale, q.zero_point), lstm_weights(c, 1, 8), lstm_weights(c, 2, 10)};
  for (size_t i = 3; i < 8; ++i) inputs.push_back(c.input_or_none(i));
  while (inputs.back() == no_value) inputs.pop_back();
  return recurrent_layer(c, ops::CellKind::lstm, std::move(inputs));
}

// Half 0 (keys) or 1 (values) of past[2, batch, heads, length, size].
ValueId half_of(ConvertContext& c, ValueId past, int64_t half) {
  const ValueId part = slice_axis(c, past, 0, half, 1);
  Shape shape = c.shape(part);
  shape.erase(shape.begin());
  return c.reshape(part, std::move(shape));
}

// The keys that mask_index leaves: [batch] lengths, or [batch, keys] zeros and ones.
ValueId index_mask(ConvertContext& c, ValueId mask, const Dim& keys) {
  if (c.rank(mask) == 1) return length_mask(c, mask, iota(c, keys));
  if (c.rank(mask) != 2) c.unsupported(fmt::format("a mask of {} axes; 1 and 2 are supported", c.rank(mask)));
  const Shape shape = c.shape(mask);
  return c.reshape(c.cast(mask, DType::boolean), {shape[0], 1, 1, shape[1]});
}

Values qattention(ConvertContext& c) {
  if (c.int_attribute("do_rotary", 0) != 0) c.unsupported("do_rotary");
  if (c.int_attribute("past_present_share_buffer", 0) != 0) c.unsupported("past_present_share_buffer");
  const int64_t heads = c.int_attribute("num_heads");
  if (heads < 1) c.invalid(fmt::format("num_heads is {}", heads));
  const ValueId x = c.input(0), weights = c.input(1);
  if (c.rank(x) != 3 || c.rank(weights) != 2)
    c.invalid(fmt::format("the input has {} axes and the weights {}, not 3 and 2", c.rank(x), c.rank(weights)));
  const ValueId sum = integer_matmul(c, x, c.input_or_none(6), weights, c.input_or_none(7));
  const ValueId scale = c.add(F::mul, {c.reshape(c.input(3), {}), column_parameter(c, c.input(4), weights)});
  const ValueId all = c.add(F::add, {c.add(F::mul, {c.cast(sum, DType::f32), scale}), c.input(2)});
  const Dim width = c.dim(all, 2), third = floor_div(width, 3);
  if (width.is_constant() && (width.value() % 3 != 0 || width.value() / 3 % heads != 0))
    c.invalid(fmt::format("{} columns of weights are not three times {} heads", width.str(), heads));
  const auto part = [&](int64_t i) { return split_heads(c, slice_axis(c, all, 2, Dim(i) * third, third), heads); };
  Attention a;
  a.query = part(0);
  a.key = part(1);
  a.value = part(2);
  a.masked = c.float_attribute("mask_filter_value", -10000);
  if (const double given = c.float_attribute("scale", 0); given != 0) a.scale = given;
  ValueId first = no_value;
  if (c.has(8)) {
    const ValueId past = c.input(8);
    if (c.rank(past) != 5) c.invalid(fmt::format("past has {} axes, not 5", c.rank(past)));
    first = dim_scalar(c, c.dim(past, 3));
    a.key = c.add(ops::Concat{2}, {half_of(c, past, 0), a.key});
    a.value = c.add(ops::Concat{2}, {half_of(c, past, 1), a.value});
  }
  const Dim queries = c.dim(a.query, 2), keys = c.dim(a.key, 2);
  if (c.has(5)) a.masks.push_back(index_mask(c, c.input(5), keys));
  if (c.int_attribute("unidirectional", 0) != 0) a.masks.push_back(causal_mask(c, queries, iota(c, keys), first));
  const ValueId y = merge_heads(c, attention(c, a).y);
  if (!c.uses_output(1)) return {y};
  const auto layer = [&](ValueId id) {
    Shape shape = c.shape(id);
    shape.insert(shape.begin(), Dim(1));
    return c.reshape(id, std::move(shape));
  };
  return {y, c.result_at(1, ops::Concat{0}, {layer(a.key), layer(a.value)})};
}

constexpr Converter microsoft_quantized_layers_table[] = {
    {"DynamicQuantizeLSTM", dynamic_quantize_lstm},
    {"QAttention", qattention},
};

}  // namespace

std::span<const Converter> microsoft_quantized_layer_converters() {
  return microsoft_quantized_layers_table;
}

}  // namespace camshaft::onnx
