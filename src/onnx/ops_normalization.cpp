// Normalisations.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/replaceable.h"
#include "onnx/converters.h"
#include "onnx/normalization.h"
#include "reference/derived_constant.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

struct ScaleAndShift {
  ValueId scale, shift;
};

// x·scale + shift with scale = gamma/√(variance + epsilon) and shift = beta - mean·scale. Constants are folded in
// double, so that nothing is lost against normalising step by step.
ScaleAndShift fold_batch_statistics(ConvertContext& c, DType dtype, double epsilon) {
  Constant constants[4];  // gamma, beta, mean, variance
  bool all_constant = true;
  for (size_t i = 0; i < 4; ++i) {
    const ReplaceableScope derives(nullptr);
    constants[i] = c.traced_constant(c.input(i + 1));
    all_constant = all_constant && constants[i].tensor != nullptr;
  }
  if (all_constant) {
    const auto count = [&](size_t i) { return constants[i].tensor->size(); };
    if (count(1) != count(0) || count(2) != count(0) || count(3) != count(0))
      c.invalid(fmt::format("scale, bias, mean and variance have {}, {}, {} and {} elements", count(0), count(1),
                            count(2), count(3)));
    ThreadPool& pool = c.constant_pool();
    const auto in_type = [&](const Constant& x, DType to) {
      return x.tensor->dtype() == to ? x : derive(ops::Cast{.to = to}, {x}, pool);
    };
    for (Constant& each : constants) each = derive_reshaped(in_type(each, DType::f64), {count(0)}, pool);
    const auto& [gamma, beta, mean, variance] = constants;
    const Constant under_root = derive(F::add, {variance, literal(Tensor::scalar(DType::f64, epsilon))}, pool);
    const Constant scale = derive(F::div, {gamma, derive(F::sqrt, {under_root}, pool)}, pool);
    const Constant shift = derive(F::sub, {beta, derive(F::mul, {mean, scale}, pool)}, pool);
    const ValueId s = c.add_constant(in_type(scale, dtype));
    return {s, c.add_constant(in_type(shift, dtype))};
  }
  ValueId inputs[4];
  for (size_t i = 0; i < 4; ++i) inputs[i] = c.cast(c.input(i + 1), dtype);
  const ValueId deviation = c.add(F::sqrt, {c.add(F::add, {inputs[3], c.scalar(dtype, epsilon)})});
  const ValueId scale = c.add(F::div, {inputs[0], deviation});
  return {scale, c.add(F::sub, {inputs[1], c.add(F::mul, {inputs[2], scale})})};
}

// What each channel's numbers are broadcast as: one number for every position of the channel, or (spatial=0 of operator
// sets 7 and 8) one for each position.
ValueId per_channel(ConvertContext& c, ValueId id) {
  const Shape& x = c.shape(c.input(0));
  if (c.opset() < 9 && c.int_attribute("spatial", 1) == 0) return c.reshape(id, Shape(x.begin() + 1, x.end()));
  if (x.size() < 2) return c.reshape(id, {1});  // a single channel
  Shape shape(x.size() - 1, Dim(1));
  shape[0] = c.dim(id, 0);
  return c.reshape(id, std::move(shape));
}

// The statistics of the batch normalise it; running ones move towards them by 1 - momentum. Operator set 14 gives the
// running statistics, those before it the batch's as well.
Values train_batch_normalization(ConvertContext& c) {
  const ValueId x = c.input(0), running_mean = c.input(3), running_variance = c.input(4);
  const DType dtype = c.dtype(x), statistics = c.dtype(running_mean);
  const DType wide = dtype == DType::f64 || statistics == DType::f64 ? DType::f64 : DType::f32;
  const bool positions = c.opset() < 9 && c.int_attribute("spatial", 1) == 0;
  std::vector<int64_t> axes{0};
  for (int64_t i = 2; i < c.rank(x) && !positions; ++i) axes.push_back(i);
  const ValueId numbers = c.cast(x, wide);
  const auto mean_of = [&](ValueId id) { return c.add(ops::Reduce{ops::ReduceKind::mean, axes, true}, {id}); };
  const ValueId mean = mean_of(numbers), centred = c.add(F::sub, {numbers, mean});
  const ValueId variance = mean_of(c.add(F::mul, {centred, centred}));
  const ValueId epsilon = c.scalar(wide, c.float_attribute("epsilon", 1e-5F));
  const ValueId deviation = c.add(F::sqrt, {c.add(F::add, {variance, epsilon})});
  const ValueId normal = c.add(F::div, {centred, deviation});
  const ValueId scaled = c.add(F::mul, {normal, per_channel(c, c.cast(c.input(1), wide))});
  Values outputs{c.cast(c.add(F::add, {scaled, per_channel(c, c.cast(c.input(2), wide))}), dtype)};
  const double momentum = c.float_attribute("momentum", 0.9F);
  const auto blended = [&](ValueId running, ValueId batch) {
    const ValueId old = c.add(F::mul, {c.cast(running, wide), c.scalar(wide, momentum)});
    const ValueId now = c.add(F::mul, {c.reshape(batch, c.shape(running)), c.scalar(wide, 1 - momentum)});
    return c.cast(c.add(F::add, {old, now}), statistics);
  };
  outputs.push_back(blended(running_mean, mean));
  outputs.push_back(blended(running_variance, variance));
  if (c.opset() >= 14) return outputs;
  outputs.push_back(c.cast(c.reshape(mean, c.shape(running_mean)), statistics));
  outputs.push_back(c.cast(c.reshape(variance, c.shape(running_variance)), statistics));
  return outputs;
}

Values batch_normalization(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) < 1) c.invalid("the input is a scalar");
  if (!is_floating(c.dtype(x)) || is_packed(c.dtype(x)))
    c.invalid(fmt::format("it takes floating-point numbers of whole bytes, not {}", to_string(c.dtype(x))));
  for (size_t i = 1; i < 5; ++i)
    if (const int64_t rank = c.rank(c.input(i)); rank != 1 && !(c.opset() < 9 && rank > 1))
      c.invalid(fmt::format("input {} must be 1-D, it is {}-D", i, rank));
  bool trains = false;
  if (c.opset() < 7) {
    trains = c.int_attribute("is_test", 0) == 0;
  } else if (c.opset() < 14) {  // asking for statistics is asking to train
    for (size_t i = 1; i < 5; ++i) trains = trains || c.uses_output(i);
  } else {
    trains = c.int_attribute("training_mode", 0) != 0;
  }
  if (trains) return train_batch_normalization(c);
  const auto [scale, shift] = fold_batch_statistics(c, c.dtype(x), c.float_attribute("epsilon", 1e-5F));
  const ValueId scaled = c.add(F::mul, {x, per_channel(c, scale)});
  return c.result(F::add, {scaled, per_channel(c, shift)});
}

Values instance_normalization(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) < 3) c.invalid(fmt::format("the input has {} axes, at least 3 are needed", c.rank(x)));
  // The scale has one number a channel, and is more often known when the model leaves the input open.
  Dim channels = c.dim(x, 1);
  if (!channels.is_constant() && c.rank(c.input(1)) == 1) channels = c.dim(c.input(1), 0);
  const int64_t groups = c.static_size(channels, "the number of channels");
  return c.result(ops::GroupNorm{groups, c.float_attribute("epsilon", 1e-5F)}, {x, c.input(1), c.input(2)});
}

// Scale and bias were per group in operator set 18 and are per channel since 21.
Values group_normalization(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (c.rank(x) < 2) c.invalid(fmt::format("the input has {} axes, at least 2 are needed", c.rank(x)));
  const int64_t groups = c.int_attribute("num_groups");
  if (groups < 1) c.invalid("the number of groups must be positive");
  const Dim channels = c.dim(x, 1);
  const auto per_channel = [&](ValueId id) {
    if (c.opset() >= 21) return id;
    const Dim size = floor_div(channels, groups);
    const ValueId expanded = c.add(ops::Expand{{groups, size}}, {c.reshape(id, {groups, 1})});
    return c.reshape(expanded, {channels});
  };
  const ValueId scale = per_channel(c.input(1));
  const ValueId bias = per_channel(c.input(2));
  return c.result(ops::GroupNorm{groups, c.float_attribute("epsilon", 1e-5F)}, {x, scale, bias});
}

bool has_shape_of_axes(ConvertContext& c, ValueId x, ValueId scale, int64_t axis) {
  return scale == no_value || c.shape(scale) == Shape(c.shape(x).begin() + axis, c.shape(x).end());
}

Values layer_normalization(ConvertContext& c) {
  const ValueId x = c.input(0), bias = c.input_or_none(2);
  const int64_t axis = c.axis(c.int_attribute("axis", -1), c.rank(x));
  const double epsilon = c.float_attribute("epsilon", 1e-5F);
  Values outputs{layer_norm(c, x, c.input(1), bias, {axis, epsilon, false})};
  const DType dtype = c.int_attribute("stash_type", 1) == 1 ? DType::f32 : c.dtype(x);
  for (const ValueId id : layer_statistics(c, c.cast(x, dtype), {axis, epsilon, false})) outputs.push_back(id);
  return outputs;
}

Values rms_normalization(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t axis = c.axis(c.int_attribute("axis", -1), c.rank(x));
  return {layer_norm(c, x, c.input(1), no_value, {axis, c.float_attribute("epsilon", 1e-5F), true})};
}

// x / (bias + alpha/size · Σ x² over neighbouring channels)^beta. The mean of x² is a pooling along the channels. The
// squares of halves leave their range.
Values lrn(ConvertContext& c) {
  const ValueId given = c.input(0), x = c.widened(given);
  const DType dtype = c.dtype(x);
  const Shape shape = c.shape(x);
  if (shape.size() < 2) c.invalid(fmt::format("the input has {} axes, at least 2 are needed", shape.size()));
  const int64_t size = c.int_attribute("size");
  if (size < 1) c.invalid("the size must be positive");
  const ValueId squares = c.add(F::mul, {x, x});
  const ValueId image = c.reshape(squares, {shape[0], 1, shape[1], product(shape, 2, c.rank(x))});
  ops::Pool pool{ops::PoolKind::average, {size, 1}, {1, 1}, {(size - 1) / 2, 0, size / 2, 0}, {1, 1}};
  pool.count_include_pad = true;
  const ValueId mean = c.reshape(c.add(std::move(pool), {image}), shape);
  const ValueId scaled = c.add(F::mul, {mean, c.scalar(dtype, c.float_attribute("alpha", 1e-4F))});
  const ValueId sum = c.add(F::add, {scaled, c.scalar(dtype, c.float_attribute("bias", 1))});
  const Values quotient{x, c.add(F::pow, {sum, c.scalar(dtype, c.float_attribute("beta", 0.75))})};
  if (x == given) return c.result(F::div, quotient);
  return c.result(ops::Cast{c.dtype(given)}, {c.add(F::div, quotient)});
}

Values lp_normalization(ConvertContext& c) {
  const ValueId given = c.input(0), x = c.widened(given);
  const int64_t p = c.int_attribute("p", 2);
  const std::vector<int64_t> axes{c.axis(c.int_attribute("axis", -1), c.rank(x))};
  if (p != 1 && p != 2) c.invalid(fmt::format("p is {}, not 1 or 2", p));
  ValueId norm = c.add(ops::Reduce{p == 1 ? ops::ReduceKind::sum_abs : ops::ReduceKind::sum_squares, axes, true}, {x});
  if (p == 2) norm = c.add(F::sqrt, {norm});
  const ValueId is_zero = c.add(F::equal, {norm, c.scalar(c.dtype(x), 0)});
  const Values quotient{x, c.add(F::select, {is_zero, c.scalar(c.dtype(x), 1), norm})};
  if (x == given) return c.result(F::div, quotient);
  return c.result(ops::Cast{c.dtype(given)}, {c.add(F::div, quotient)});
}

Values mean_variance_normalization(ConvertContext& c) {
  const ValueId given = c.input(0), x = c.widened(given);
  auto axes = c.axes(c.ints_attribute("axes").value_or(std::vector<int64_t>{0, 2, 3}), c.rank(x));
  std::sort(axes.begin(), axes.end());
  const ValueId centred = c.add(F::sub, {x, c.add(ops::Reduce{ops::ReduceKind::mean, axes, true}, {x})});
  const ValueId variance = c.add(ops::Reduce{ops::ReduceKind::mean, axes, true}, {c.add(F::mul, {centred, centred})});
  const ValueId deviation = c.add(F::add, {c.add(F::sqrt, {variance}), c.scalar(c.dtype(x), 1e-9)});
  if (x == given) return c.result(F::div, {centred, deviation});
  return c.result(ops::Cast{c.dtype(given)}, {c.add(F::div, {centred, deviation})});
}

constexpr Converter normalization_table[] = {
    {"BatchNormalization", batch_normalization},
    {"GroupNormalization", group_normalization},
    {"InstanceNormalization", instance_normalization},
    {"LRN", lrn},
    {"LayerNormalization", layer_normalization},
    {"LpNormalization", lp_normalization},
    {"MeanVarianceNormalization", mean_variance_normalization},
    {"RMSNormalization", rms_normalization},
    {"SimplifiedLayerNormalization", rms_normalization},  // ONNX Runtime's, in the default domain
};

}  // namespace

ValueId layer_norm(ConvertContext& c, ValueId x, ValueId scale, ValueId bias, const LayerNormOptions& options) {
  if (options.axis < 0 || options.axis >= c.rank(x))
    c.invalid(fmt::format("an input of {} axes cannot be normalised from axis {} on", c.rank(x), options.axis));
  const ops::LayerNorm op{options.axis, options.epsilon, options.root_mean_square};
  const DType dtype = c.dtype(x);
  // A scale of another dtype or shape (it may broadcast) is applied after.
  const auto fits = [&](ValueId id) {
    return id == no_value || (c.dtype(id) == dtype && has_shape_of_axes(c, x, id, options.axis));
  };
  if (fits(scale) && fits(bias)) {
    Values inputs{x, scale};
    if (bias != no_value) inputs.push_back(bias);
    return c.result_at(0, op, std::move(inputs));
  }
  ValueId y = c.add(op, {x});
  const DType wide = scale == no_value ? dtype : c.dtype(scale);
  y = c.cast(y, wide);
  if (scale != no_value) y = c.add(F::mul, {y, scale});
  if (bias != no_value) y = c.add(F::add, {y, c.cast(bias, wide)});
  return y;
}

// Rare outside of training graphs, so spelled out.
Values layer_statistics(ConvertContext& c, ValueId x, const LayerNormOptions& options) {
  if (!c.uses_output(1) && !c.uses_output(2)) return {no_value, no_value};
  const DType dtype = c.dtype(x);
  std::vector<int64_t> axes;
  for (int64_t i = options.axis; i < c.rank(x); ++i) axes.push_back(i);
  Shape shape = c.shape(x);
  for (const int64_t axis : axes) shape[static_cast<size_t>(axis)] = 1;
  const ValueId mean = options.root_mean_square ? c.result_at(1, ops::Expand{shape}, {c.scalar(dtype, 0)})
                                                : c.result_at(1, ops::Reduce{ops::ReduceKind::mean, axes, true}, {x});
  const ValueId centred = options.root_mean_square ? x : c.add(F::sub, {x, mean});
  const ValueId variance = c.add(ops::Reduce{ops::ReduceKind::mean, axes, true}, {c.add(F::mul, {centred, centred})});
  const ValueId deviation = c.add(F::sqrt, {c.add(F::add, {variance, c.scalar(dtype, options.epsilon)})});
  return {mean, c.result_at(2, ops::Pointwise{F::reciprocal}, {deviation})};
}

std::span<const Converter> normalization_converters() {
  return normalization_table;
}

}  // namespace camshaft::onnx
