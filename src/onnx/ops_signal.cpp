// Fourier transforms, windows and mel weights.
#include <fmt/format.h>

#include <numbers>

#include "ir/ops/generate.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/signal.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Values dft(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  int64_t axis = c.opset() < 20 ? c.int_attribute("axis", 1) : -2;
  const bool inverse = c.int_attribute("inverse", 0) != 0, onesided = c.int_attribute("onesided", 0) != 0;
  if (c.opset() >= 20 && c.has(2)) {
    if (!c.constant(c.input(2))) return c.result(ops::Dft{-1, inverse, onesided}, {x, c.input_or_none(1), c.input(2)});
    const std::vector<int64_t> given = c.ints(c.input(2), "the axis");
    if (given.size() != 1) c.invalid(fmt::format("the axis must be one number, not {}", given.size()));
    axis = given[0];
  }
  return c.result(ops::Dft{c.axis(axis, rank), inverse, onesided}, {x, c.input_or_none(1)});
}

Values stft(ConvertContext& c) {
  ValueId signal = c.input(0);
  if (c.rank(signal) == 2) signal = c.reshape(signal, {c.dim(signal, 0), c.dim(signal, 1), 1});
  return c.result(ops::Stft{c.int_attribute("onesided", 1) != 0},
                  {signal, c.input(1), c.input_or_none(2), c.input_or_none(3)});
}

DType output_dtype(ConvertContext& c) {
  return dtype_from_onnx(static_cast<int32_t>(c.int_attribute("output_datatype", 1)), "attribute 'output_datatype'");
}

// constant + first·cos(2πn/N) + second·cos(4πn/N), N being the size, or one less for a symmetric window.
Values window(ConvertContext& c, double constant, double first, double second) {
  const ValueId size = c.reshape(c.cast(c.input(0), DType::i64), {});
  const auto known = c.content(size);
  if (known)
    if (const auto n = known->front().as_constant(); n && *n < 0) c.invalid(fmt::format("a window of size {}", *n));
  const ValueId positions =
      known ? iota(c, known->front()) : c.add(ops::Range{}, {c.scalar(DType::i64, 0), size, c.scalar(DType::i64, 1)});
  ValueId period = c.cast(size, DType::f64);
  if (c.int_attribute("periodic", 1) == 0) period = c.add(F::sub, {period, c.scalar(DType::f64, 1)});
  const ValueId turns = c.add(F::div, {c.cast(positions, DType::f64), period});
  const auto wave = [&](double factor, double frequency) {
    const ValueId angle = c.add(F::mul, {turns, c.scalar(DType::f64, frequency * 2 * std::numbers::pi)});
    return c.add(F::mul, {c.add(F::cos, {angle}), c.scalar(DType::f64, factor)});
  };
  ValueId sum = c.add(F::add, {wave(first, 1), c.scalar(DType::f64, constant)});
  if (second != 0) sum = c.add(F::add, {sum, wave(second, 2)});
  return {c.cast(sum, output_dtype(c))};
}

Values hann_window(ConvertContext& c) {
  return window(c, 0.5, -0.5, 0);
}
Values hamming_window(ConvertContext& c) {
  return window(c, 25.0 / 46, -21.0 / 46, 0);
}
Values blackman_window(ConvertContext& c) {
  return window(c, 0.42, -0.5, 0.08);
}

Values mel_weight_matrix(ConvertContext& c) {
  return c.result(ops::MelWeights{output_dtype(c)}, {c.input(0), c.input(1), c.input(2), c.input(3), c.input(4)});
}

constexpr Converter signal_table[] = {
    {"BlackmanWindow", blackman_window, 17},    {"DFT", dft, 17},
    {"HammingWindow", hamming_window, 17},      {"HannWindow", hann_window, 17},
    {"MelWeightMatrix", mel_weight_matrix, 17}, {"STFT", stft, 17},
};

}  // namespace

std::span<const Converter> signal_converters() {
  return signal_table;
}

}  // namespace camshaft::onnx
