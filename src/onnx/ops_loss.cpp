// Losses, lowered to gathers, pointwise operators and reductions.
#include <fmt/format.h>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

ValueId reduce_all(ConvertContext& c, ops::ReduceKind kind, ValueId x) {
  ops::Reduce op{kind, {}, false};
  for (int64_t i = 0; i < c.rank(x); ++i) op.axes.push_back(i);
  return c.add(std::move(op), {x});
}

// -weight[target] · log_probability[target]: log_probability is [n, classes, d...] and the target [n, d...].
ValueId nll_loss(ConvertContext& c, ValueId log_probability, ValueId labels, ValueId weight) {
  const DType dtype = c.dtype(log_probability);
  const int64_t rank = c.rank(log_probability);
  if (rank < 2) c.invalid(fmt::format("the scores have {} axes, [n, classes, ...] is needed", rank));
  if (c.rank(labels) != rank - 1)
    c.invalid(fmt::format("the labels have {} axes, the scores {}: one less is needed", c.rank(labels), rank));
  if (weight != no_value && c.rank(weight) != 1)
    c.invalid(fmt::format("the weights have {} axes, not 1", c.rank(weight)));
  const std::string reduction = c.string_attribute("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    c.invalid(fmt::format("reduction '{}' is unknown", reduction));
  const ValueId zero = c.scalar(dtype, 0);
  ValueId target = c.cast(labels, DType::i64), ignored = no_value;
  if (c.has_attribute("ignore_index")) {
    const ValueId index = c.add_constant(Tensor::of<int64_t>(DType::i64, {}, {c.int_attribute("ignore_index")}));
    ignored = c.add(F::equal, {target, index});
    target = c.add(F::select, {ignored, c.scalar(DType::i64, 0), target});
  }
  Shape column = c.shape(target);
  column.insert(column.begin() + 1, Dim(1));
  const ValueId picked = c.add(ops::GatherElements{1}, {log_probability, c.reshape(target, std::move(column))});
  ValueId loss = c.add(F::neg, {c.reshape(picked, c.shape(target))});
  ValueId weights = no_value;
  if (weight != no_value) {
    weights = c.add(ops::Gather{0}, {weight, target});
    loss = c.add(F::mul, {loss, weights});
  }
  if (ignored != no_value) {
    loss = c.add(F::select, {ignored, zero, loss});
    weights = c.add(F::select, {ignored, zero, weights == no_value ? c.scalar(dtype, 1) : weights});
  }
  if (reduction == "none") return loss;
  if (reduction == "sum") return reduce_all(c, ops::ReduceKind::sum, loss);
  if (weights == no_value) return reduce_all(c, ops::ReduceKind::mean, loss);
  return c.add(F::div, {reduce_all(c, ops::ReduceKind::sum, loss), reduce_all(c, ops::ReduceKind::sum, weights)});
}

Values negative_log_likelihood_loss(ConvertContext& c) {
  return {nll_loss(c, c.input(0), c.input(1), c.input_or_none(2))};
}

Values softmax_cross_entropy_loss(ConvertContext& c) {
  if (c.rank(c.input(0)) < 2) c.invalid("the scores must be [n, classes, ...]");
  const ValueId log_probability = c.add(ops::Softmax{1, true}, {c.input(0)});
  return {nll_loss(c, log_probability, c.input(1), c.input_or_none(2)), log_probability};
}

constexpr Converter loss_table[] = {
    {"NegativeLogLikelihoodLoss", negative_log_likelihood_loss, 12},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy_loss, 12},
};

}  // namespace

std::span<const Converter> loss_converters() {
  return loss_table;
}

}  // namespace camshaft::onnx
