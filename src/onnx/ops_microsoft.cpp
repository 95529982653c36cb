// Operators of the domain com.microsoft, which ONNX Runtime's optimiser and exporters write.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <utility>

#include "onnx/activations.h"
#include "onnx/converters.h"
#include "onnx/normalization.h"
#include "ops/contract.h"
#include "ops/pointwise.h"

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
Values quick_gelu(ConvertContext& c) {
  return {swish(c, c.input(0), c.float_attribute("alpha", 1.702F))};
}

Values fused_matmul(ConvertContext& c) {
  if (c.int_attribute("transBatchA", 0) != 0 || c.int_attribute("transBatchB", 0) != 0)
    c.unsupported("transBatchA and transBatchB");
  const ops::MatMul op{c.int_attribute("transA", 0) != 0, c.int_attribute("transB", 0) != 0};
  const ValueId a = c.input(0), b = c.input(1);
  const double alpha = c.float_attribute("alpha", 1);
  if (alpha == 1) return c.result(op, {a, b});
  return c.result(F::mul, {c.add(op, {a, b}), c.scalar(c.dtype(a), alpha)});
}

// (input + skip [+ bias]) normalised over the last axis; output 3 is the sum.
Values skip_norm(ConvertContext& c, ValueId bias, ValueId sum_bias, bool root_mean_square) {
  if (c.uses_output(1) || c.uses_output(2)) c.unsupported("the outputs mean and inv_std_var");
  ValueId sum = c.add(F::add, {c.input(0), c.input(1)});
  if (sum_bias != no_value) sum = c.add(F::add, {sum, sum_bias});
  const double epsilon = c.float_attribute("epsilon", 1e-12F);
  const ValueId y = layer_norm(c, sum, c.input(2), bias, {c.rank(sum) - 1, epsilon, root_mean_square});
  return {y, no_value, no_value, sum};
}
Values skip_layer_normalization(ConvertContext& c) {
  return skip_norm(c, c.input_or_none(3), c.input_or_none(4), false);
}
Values skip_simplified_layer_normalization(ConvertContext& c) {
  return skip_norm(c, no_value, c.input_or_none(3), true);
}

constexpr Converter table[] = {
    {"BiasGelu", bias_gelu},
    {"FastGelu", fast_gelu},
    {"FusedMatMul", fused_matmul},
    {"Gelu", microsoft_gelu},
    {"QuickGelu", quick_gelu},
    {"SkipLayerNormalization", skip_layer_normalization},
    {"SkipSimplifiedLayerNormalization", skip_simplified_layer_normalization},
};

}  // namespace

std::span<const Converter> microsoft_converters() {
  return table;
}

}  // namespace camshaft::onnx
