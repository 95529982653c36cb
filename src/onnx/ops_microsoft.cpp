// Activations and normalisations of the domain com.microsoft, which ONNX Runtime's optimiser and exporters write.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <utility>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/activations.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/grid_sample.h"
#include "onnx/normalization.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

ValueId biased_input(ConvertContext& c) {
  return c.has(1) ? c.add(F::add, {c.input(0), c.input(1)}) : c.input(0);
}

Values microsoft_gelu(ConvertContext& c) {
  return {gelu(c, c.input(0))};
}
Values bias_gelu(ConvertContext& c) {
  return {gelu(c, biased_input(c))};
}
Values fast_gelu(ConvertContext& c) {
  return {gelu_tanh(c, biased_input(c))};
}
// Halves of (input + bias): one times the Gelu of the other.
Values bias_split_gelu(ConvertContext& c) {
  const ValueId sum = biased_input(c);
  const int64_t last = c.rank(sum) - 1;
  if (last < 0) c.invalid("the input is a scalar");
  const Dim half = floor_div(c.dim(sum, last), 2);
  const ValueId gate = gelu(c, slice_axis(c, sum, last, half, half));
  return c.result(F::mul, {slice_axis(c, sum, last, 0, half), gate});
}
Values quick_gelu(ConvertContext& c) {
  return {swish(c, c.input(0), c.float_attribute("alpha", 1.702F))};
}

// (input + skip [+ bias]) normalised over the last axis; outputs 1 and 2 are the statistics, output 3 is the sum.
Values skip_norm(ConvertContext& c, ValueId bias, ValueId sum_bias, bool root_mean_square) {
  ValueId sum = c.add(F::add, {c.input(0), c.input(1)});
  if (sum_bias != no_value) sum = c.add(F::add, {sum, sum_bias});
  const LayerNormOptions options{c.rank(sum) - 1, c.float_attribute("epsilon", 1e-12F), root_mean_square};
  const ValueId y = layer_norm(c, sum, c.input(2), bias, options);
  const Values statistics = layer_statistics(c, c.cast(sum, DType::f32), options);
  return {y, statistics[0], statistics[1], sum};
}
Values skip_layer_normalization(ConvertContext& c) {
  return skip_norm(c, c.input_or_none(3), c.input_or_none(4), false);
}
Values skip_simplified_layer_normalization(ConvertContext& c) {
  return skip_norm(c, no_value, c.input_or_none(3), true);
}

// Word, position and segment embeddings, added up and normalised.
Values embed_layer_normalization(ConvertContext& c) {
  const ValueId ids = c.input(0);
  if (c.rank(ids) != 2) c.invalid(fmt::format("the word ids have {} axes instead of 2", c.rank(ids)));
  for (const size_t i : {size_t{2}, size_t{3}})
    if (c.rank(c.input(i)) != 2) c.invalid(fmt::format("input {} is not a matrix", i));
  ValueId sum = c.add(ops::Gather{0}, {c.input(2), ids});
  const ValueId positions =
      c.has(8) ? c.add(ops::Gather{0}, {c.input(3), c.input(8)}) : slice_axis(c, c.input(3), 0, 0, c.dim(ids, 1));
  sum = c.add(F::add, {sum, positions});
  if (c.has(1)) sum = c.add(F::add, {sum, c.add(ops::Gather{0}, {c.input(4), c.input(1)})});
  const ValueId y = layer_norm(c, sum, c.input(5), c.input(6), {2, c.float_attribute("epsilon", 1e-12F), false});
  Values outputs{y, no_value, sum};
  if (!c.uses_output(1)) return outputs;
  // How many words each sequence has.
  if (c.has(7)) {
    const ValueId ones = c.cast(c.cast(c.input(7), DType::boolean), DType::i32);
    outputs[1] = c.add(ops::Reduce{ops::ReduceKind::sum, {1}, false}, {ones});
  } else {
    outputs[1] = c.add(ops::Expand{{c.dim(ids, 0)}}, {c.scalar(DType::i32, 0)});
  }
  return outputs;
}

// Group normalisation of x, channels last by default, and SiLU if asked for.
ValueId microsoft_group_norm(ConvertContext& c, ValueId x) {
  const int64_t activation = c.int_attribute("activation", 0);
  if (activation != 0 && activation != 1) c.invalid(fmt::format("activation is {}, not 0 or 1", activation));
  const bool channels_last = c.int_attribute("channels_last", 1) != 0;
  const ops::GroupNorm op{c.int_attribute("groups"), c.float_attribute("epsilon", 1e-5F), channels_last};
  if (activation == 0) return c.result_at(0, op, {x, c.input(1), c.input(2)});
  return swish(c, c.add(op, {x, c.input(1), c.input(2)}), 1);
}
Values group_norm(ConvertContext& c) {
  return {microsoft_group_norm(c, c.input(0))};
}
Values skip_group_norm(ConvertContext& c) {
  const ValueId x = c.input(0);
  const bool channels_last = c.int_attribute("channels_last", 1) != 0;
  const auto add = [&](ValueId sum, ValueId other) {  // [n, c] and [c] are a number a channel
    if (c.rank(other) != c.rank(x)) {
      if (c.rank(other) != 1 && c.rank(other) != 2)
        c.invalid(fmt::format("{} axes cannot be added to {}: 1, 2 or as many are possible", c.rank(other), c.rank(x)));
      Shape shape(static_cast<size_t>(c.rank(x)), Dim(1));
      if (c.rank(other) == 2) shape[0] = c.dim(other, 0);
      shape[channels_last ? shape.size() - 1 : 1] = c.shape(other).back();
      other = c.reshape(other, std::move(shape));
    }
    return c.add(F::add, {sum, other});
  };
  if (c.rank(x) < 2) c.invalid(fmt::format("the input has {} axes, at least 2 are needed", c.rank(x)));
  ValueId sum = add(x, c.input(3));
  if (c.has(4)) sum = add(sum, c.input(4));
  return {microsoft_group_norm(c, sum), sum};
}

constexpr Converter microsoft_table[] = {
    {"BiasGelu", bias_gelu},
    {"BiasSplitGelu", bias_split_gelu},
    {"EmbedLayerNormalization", embed_layer_normalization},
    {"FastGelu", fast_gelu},
    {"Gelu", microsoft_gelu},
    {"GroupNorm", group_norm},
    {"GridSample", grid_sample},
    {"QuickGelu", quick_gelu},
    {"SkipGroupNorm", skip_group_norm},
    {"SkipLayerNormalization", skip_layer_normalization},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization},
};

}  // namespace

std::span<const Converter> microsoft_converters() {
  return microsoft_table;
}

}  // namespace camshaft::onnx
