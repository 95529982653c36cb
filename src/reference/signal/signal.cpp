// The reference evaluation of dft, stft and mel_weights.
#include "ir/ops/signal.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/strides.h"
#include "reference/element_io.h"
#include "reference/signal/fourier.h"

namespace camshaft::ops {

namespace {

using Complex = FourierPlan::Complex;

int64_t scalar_of(const Tensor& t, const char* what) {
  const std::vector<int64_t> values = t.to_ints();
  if (values.size() != 1) fail_rule("{} must be one number, not {}", what, values.size());
  return values[0];
}

}  // namespace

std::vector<Tensor> Dft::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  int64_t along = axis;
  if (axis == -1) {
    const int64_t asked = scalar_of(context.input(2), "the axis");
    along = asked < 0 ? asked + x.rank() : asked;
    if (along < 0 || along >= x.rank() - 1) fail_rule("axis {} of a signal of {} axes", asked, x.rank());
  }
  const auto at = static_cast<size_t>(along);
  const int64_t given = x.dims()[at], parts = x.dims().back();
  if (parts != 1 && parts != 2) fail_rule("the last axis of a signal has size 1 or 2, not {}", parts);
  if (onesided && parts != (inverse ? 2 : 1))
    fail_rule("a one-sided {} takes a {} signal", inverse ? "inverse" : "transform", inverse ? "complex" : "real");
  const int64_t length = context.has(1)        ? scalar_of(context.input(1), "the length")
                         : onesided && inverse ? 2 * (given - 1)
                                               : given;
  if (length < 1) fail_rule("a transform of length {}", length);
  Dims dims = x.dims();
  const int64_t kept = onesided && !inverse ? length / 2 + 1 : length, out_parts = onesided && inverse ? 1 : 2;
  dims[at] = kept;
  dims.back() = out_parts;
  Tensor out(x.dtype(), dims);
  if (out.size() == 0) return {out};
  const FourierPlan plan(length);  // a table of the length: the result is no shorter than half of it
  std::byte* to = out.mutable_data();
  const int64_t inner = product(x.dims(), at + 1, x.dims().size() - 1), lines = product(x.dims(), 0, at) * inner;
  const int64_t used = std::min(given, onesided && inverse ? length / 2 + 1 : length);
  const double scale = inverse ? 1 / static_cast<double>(length) : 1;
  for_pieces(context.pool, lines, std::max<int64_t>(1, 2048 / length), [&](int64_t begin, int64_t end) {
    std::vector<Complex> line(static_cast<size_t>(length)), scratch;
    std::vector<double> part(static_cast<size_t>(std::max(length, given)));
    for (int64_t l = begin; l < end; ++l) {
      std::fill(line.begin(), line.end(), Complex{});
      const int64_t from = (l / inner * given * inner + l % inner) * parts;
      for (int64_t p = 0; p < parts; ++p) {
        load_elements(x.dtype(), x.data(), from + p, inner * parts, used, part.data());
        for (int64_t i = 0; i < used; ++i)
          (p == 0 ? line[static_cast<size_t>(i)].re : line[static_cast<size_t>(i)].im) = part[static_cast<size_t>(i)];
      }
      if (onesided && inverse) {  // the other half is the conjugate of this one
        line[0].im = 0;
        for (int64_t i = 1; i < (length + 1) / 2; ++i)
          line[static_cast<size_t>(length - i)] = {line[static_cast<size_t>(i)].re, -line[static_cast<size_t>(i)].im};
        if (length % 2 == 0) line[static_cast<size_t>(length / 2)].im = 0;
      }
      plan.run(line.data(), inverse, scratch);
      const int64_t first = (l / inner * kept * inner + l % inner) * out_parts;
      for (int64_t p = 0; p < out_parts; ++p) {
        for (int64_t i = 0; i < kept; ++i)
          part[static_cast<size_t>(i)] =
              scale * (p == 0 ? line[static_cast<size_t>(i)].re : line[static_cast<size_t>(i)].im);
        store_elements(x.dtype(), to, first + p, inner * out_parts, kept, part.data());
      }
    }
  });
  return {out};
}

std::vector<Tensor> Stft::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t batch = x.dims()[0], samples = x.dims()[1], parts = x.dims()[2];
  if (parts != 1 && (parts != 2 || onesided)) fail_rule("a signal with {} values a sample", parts);
  const int64_t step = scalar_of(context.input(1), "the step");
  if (step < 1) fail_rule("a step of {}", step);
  int64_t length = context.has(2) ? context.input(2).size() : samples;
  if (context.has(3)) {
    length = scalar_of(context.input(3), "the frame length");
    if (context.has(2) && length != context.input(2).size())
      fail_rule("a window of {} values for frames of {}", context.input(2).size(), length);
  }
  if (length > samples) fail_rule("a frame of {} is longer than the signal of {}", length, samples);
  if (length < 1) fail_rule("a transform of length {}", length);
  const int64_t frames = (samples - length) / step + 1, bins = onesided ? length / 2 + 1 : length;
  Tensor out(x.dtype(), {batch, frames, bins, 2});
  if (out.size() == 0) return {out};
  const FourierPlan plan(length);
  std::vector<double> window(static_cast<size_t>(length), 1);
  if (context.has(2)) window = context.input(2).to_doubles();
  std::byte* to = out.mutable_data();
  for_pieces(context.pool, batch * frames, 1, [&](int64_t begin, int64_t end) {
    std::vector<Complex> line(static_cast<size_t>(length)), scratch;
    std::vector<double> values(static_cast<size_t>(2 * length));
    for (int64_t f = begin; f < end; ++f) {
      const int64_t from = (f / frames * samples + f % frames * step) * parts;
      load_elements(x.dtype(), x.data(), from, 1, length * parts, values.data());
      for (int64_t i = 0; i < length; ++i) {
        const auto n = static_cast<size_t>(i), p = static_cast<size_t>(i * parts);
        line[n] = {values[p] * window[n], parts == 2 ? values[p + 1] * window[n] : 0};
      }
      plan.run(line.data(), false, scratch);
      for (int64_t i = 0; i < bins; ++i) {
        values[static_cast<size_t>(2 * i)] = line[static_cast<size_t>(i)].re;
        values[static_cast<size_t>(2 * i + 1)] = line[static_cast<size_t>(i)].im;
      }
      store_elements(x.dtype(), to, f * bins * 2, 1, bins * 2, values.data());
    }
  });
  return {out};
}

std::vector<Tensor> MelWeights::evaluate(const EvalContext& context) const {
  const int64_t bins = scalar_of(context.input(0), "the number of bins");
  const int64_t length = scalar_of(context.input(1), "the length"),
                rate = scalar_of(context.input(2), "the sample rate");
  const auto frequency = [&](size_t i) {
    if (context.input(i).size() != 1) fail_rule("a frequency must be one number, not {}", context.input(i).size());
    return context.input(i).to_doubles()[0];
  };
  const double lower = frequency(3), upper = frequency(4);
  if (bins < 0 || length < 0 || rate <= 0) fail_rule("{} bins, length {} and sample rate {}", bins, length, rate);
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const int64_t rows = length / 2 + 1;
  Tensor out(dtype, {rows, bins});  // first: it refuses sizes that overflow below
  const double first = to_mel(lower), step = (to_mel(upper) - first) / static_cast<double>(bins + 2);
  // Powers go up by one ratio, which rounds a little each time: what lies near a whole number is computed by itself. A
  // power each took half of 1000 bins.
  constexpr int64_t most_steps = 1024;
  constexpr double most_rounding = 1e-10;
  const double ratio = std::pow(10, step / 2595);
  double power = 0;
  const auto point = [&](int64_t i) {
    const auto exact = [&] { return std::pow(10, (first + static_cast<double>(i) * step) / 2595); };
    const auto place = [&](double p) {
      return static_cast<double>(length + 1) * (700 * (p - 1)) / static_cast<double>(rate);
    };
    power = i % most_steps == 0 ? exact() : power * ratio;
    double at = std::floor(place(power * (1 - most_rounding)));
    if (at != std::floor(place(power * (1 + most_rounding)))) at = std::floor(place(exact()));
    if (!(at >= 0 && at < static_cast<double>(rows)))
      fail_rule("frequencies from {} to {} do not lie in a spectrum of {} samples at a rate of {}", lower, upper,
                length, rate);
    return static_cast<int64_t>(at);
  };
  // Few of the weights are not 0, which all are at first. Each point serves three filters.
  std::vector<double> filter;
  PacedCancellation cancellation;
  int64_t left = 0, center = 0, right = 0;
  if (bins > 0) center = point(0), right = point(1);
  std::byte* const to = out.mutable_data();
  for (int64_t i = 0; i < bins; ++i) {
    left = center, center = right, right = point(i + 2);
    // Each weight once, by weight(row, value).
    const auto triangle = [&](auto&& weight) {
      if (left == center) weight(center, 1.0);
      for (int64_t j = left; left < center && j <= center; ++j)
        weight(j, static_cast<double>(j - left) / static_cast<double>(center - left));
      for (int64_t j = center; j < right; ++j)
        weight(j, static_cast<double>(right - j) / static_cast<double>(right - center));
    };
    const int64_t begin = std::min(left, center), end = std::max(center + 1, right);
    cancellation.did(16 + end - begin);
    if (dtype == DType::f32) {
      float* const column = reinterpret_cast<float*>(to) + i;
      triangle([&](int64_t row, double weight) {
        if (row % (1 << 16) == 0) cancellation_point();
        column[row * bins] = static_cast<float>(weight);
      });
      continue;
    }
    filter.assign(static_cast<size_t>(end - begin), 0);
    triangle([&](int64_t row, double weight) { filter[static_cast<size_t>(row - begin)] = weight; });
    store_elements(dtype, to, begin * bins + i, bins, end - begin, filter.data());
  }
  return {out};
}

}  // namespace camshaft::ops
