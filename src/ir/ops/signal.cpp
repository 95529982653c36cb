#include "ir/ops/signal.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_scalar(const InferContext& context, size_t i, const char* what) {
  if (context.rank(i) > 1 || (context.rank(i) == 1 && provably_different(context.shape(i)[0], 1)))
    fail_rule("{} must be one number, not {}", what, to_string(context.type(i)));
}

// An integer scalar input, if it is known.
std::optional<Dim> known_scalar(const InferContext& context, size_t i) {
  const auto content = known_content(context, i);
  if (!content || content->size() != 1) return std::nullopt;
  return content->front();
}

Dim half_spectrum(const Dim& length) {
  return floor_div(length, 2) + Dim(1);
}

void check_signal(const InferContext& context, bool real_only) {
  if (!is_floating(context.dtype(0))) fail_rule("a signal is floating-point, not {}", to_string(context.dtype(0)));
  const Dim& parts = context.shape(0).back();
  if (provably_different(parts, 1) && provably_different(parts, 2))
    fail_rule("the last axis of a signal has size 1 (real) or 2 (complex), not {}", parts.str());
  if (real_only && provably_different(parts, 1)) fail_rule("a one-sided transform takes a real signal");
}

}  // namespace

std::vector<Inferred> Dft::infer(const InferContext& context) const {
  if (context.rank(0) < 2) fail_rule("a signal has at least two axes, not {}", context.rank(0));
  if (axis == -1) {
    check_index_dtype(context.dtype(2), "the axis");
    check_scalar(context, 2, "the axis");
  } else {
    check_axis(axis, context.rank(0));
  }
  if (axis == context.rank(0) - 1) fail_rule("the last axis holds real and imaginary parts: it is not transformed");
  check_signal(context, onesided && !inverse);
  if (onesided && inverse && provably_different(context.shape(0).back(), 2))
    fail_rule("a one-sided inverse transform takes a complex signal");
  Shape shape = context.shape(0);
  if (axis == -1) {  // any axis may change its size
    const bool resized = onesided || context.has(1);
    for (size_t i = 0; resized && i + 1 < shape.size(); ++i) shape[i] = context.fresh(0, i);
    shape.back() = onesided && inverse ? 1 : 2;
    return {Inferred{{context.dtype(0), std::move(shape)}}};
  }
  const auto at = static_cast<size_t>(axis);
  Dim length = onesided && inverse ? (shape[at] - Dim(1)) * Dim(2) : shape[at];
  bool known = true;
  if (context.has(1)) {
    check_index_dtype(context.dtype(1), "the length");
    check_scalar(context, 1, "the length");
    const auto given = known_scalar(context, 1);
    known = given.has_value();
    if (given) length = *given;
  }
  if (const auto n = length.as_constant(); known && n && *n < 1) fail_rule("a transform of length {}", *n);
  shape[at] = !known ? context.fresh(0, at) : onesided && !inverse ? half_spectrum(length) : length;
  shape.back() = onesided && inverse ? 1 : 2;
  return {Inferred{{context.dtype(0), std::move(shape)}}};
}

std::vector<Inferred> Stft::infer(const InferContext& context) const {
  if (context.rank(0) != 3) fail_rule("a signal is [batch, length, 1 or 2], not of {} axes", context.rank(0));
  check_signal(context, onesided);
  check_index_dtype(context.dtype(1), "the step");
  check_scalar(context, 1, "the step");
  const Shape& signal = context.shape(0);
  std::optional<Dim> length = signal[1];
  if (context.has(2)) {
    if (context.rank(2) != 1) fail_rule("the window must have one axis, not {}", context.rank(2));
    if (context.dtype(2) != context.dtype(0))
      fail_rule("the window is {}, the signal {}", to_string(context.dtype(2)), to_string(context.dtype(0)));
    length = context.shape(2)[0];
  }
  if (context.has(3)) {
    check_index_dtype(context.dtype(3), "the frame length");
    check_scalar(context, 3, "the frame length");
    const auto given = known_scalar(context, 3);
    if (given && context.has(2)) same_size(*given, *length, "frame length and window", 0);
    if (given || !context.has(2)) length = given;
  }
  const auto step = known_scalar(context, 1);
  if (step && step->is_constant() && step->value() < 1) fail_rule("a step of {}", step->value());
  Dim frames = context.fresh(0, 1), bins = context.fresh(0, 2);
  if (length) bins = onesided ? half_spectrum(*length) : *length;
  if (length && step && step->is_constant()) frames = floor_div(signal[1] - *length, *step) + Dim(1);
  if (const auto high = frames.upper_bound(); high && *high < 0)
    fail_rule("a frame of {} is longer than the signal of {}", length->str(), signal[1].str());
  return {Inferred{{context.dtype(0), {signal[0], std::move(frames), std::move(bins), 2}}}};
}

std::vector<Inferred> MelWeights::infer(const InferContext& context) const {
  for (size_t i = 0; i < 5; ++i) check_scalar(context, i, "each input");
  for (size_t i = 0; i < 3; ++i) check_index_dtype(context.dtype(i), "bins, length and sample rate");
  if (dtype == DType::string || dtype == DType::boolean) fail_rule("weights of {} are not possible", to_string(dtype));
  const auto bins = known_scalar(context, 0), length = known_scalar(context, 1);
  return {
      Inferred{{dtype, {length ? half_spectrum(*length) : context.fresh(0, 0), bins ? *bins : context.fresh(0, 1)}}}};
}

}  // namespace camshaft::ops
