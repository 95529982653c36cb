#include "reference/signal/fourier.h"

#include <cmath>
#include <numbers>

#include "base/work_scope.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

using Complex = FourierPlan::Complex;

Complex times(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
Complex conjugate(Complex a) {
  return {a.re, -a.im};
}
Complex unit(double angle) {
  return {std::cos(angle), std::sin(angle)};
}

}  // namespace

FourierPlan::FourierPlan(int64_t length) : length_(length) {
  constexpr int64_t longest = int64_t{1} << 28;
  if (length < 1 || length > longest) fail_rule("a transform of length {} is not possible", length);
  const bool is_power = (length & (length - 1)) == 0;
  while (padded_ < (is_power ? length : 2 * length - 1)) padded_ *= 2;
  for (int64_t k = 0; k < padded_ / 2; ++k)
    twiddles_.push_back(unit(-2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(padded_)));
  if (is_power) return;
  filter_.resize(static_cast<size_t>(padded_));
  for (int64_t n = 0; n < length; ++n) {
    // The angle repeats every 2·length: reduced first, so that large squares lose no digits.
    const auto square = static_cast<double>(n * n % (2 * length));
    const Complex c = unit(-std::numbers::pi * square / static_cast<double>(length));
    chirp_.push_back(c);
    filter_[static_cast<size_t>(n)] = conjugate(c);
    if (n > 0) filter_[static_cast<size_t>(padded_ - n)] = conjugate(c);
  }
  power_of_two(filter_.data(), false);
}

void FourierPlan::power_of_two(Complex* data, bool inverse) const {
  for (int64_t i = 1, reversed = 0; i < padded_; ++i) {
    int64_t bit = padded_ >> 1;
    for (; (reversed & bit) != 0; bit >>= 1) reversed ^= bit;
    reversed |= bit;
    if (i < reversed) std::swap(data[i], data[reversed]);
  }
  PacedCancellation cancellation;
  for (int64_t half = 1; half < padded_; half *= 2) {
    const int64_t step = padded_ / (2 * half);
    for (int64_t start = 0; start < padded_; start += 2 * half) {
      cancellation.did(half);
      for (int64_t k = 0; k < half; ++k) {
        const Complex w = twiddles_[static_cast<size_t>(k * step)];
        const Complex a = data[start + k], b = times(data[start + k + half], inverse ? conjugate(w) : w);
        data[start + k] = {a.re + b.re, a.im + b.im};
        data[start + k + half] = {a.re - b.re, a.im - b.im};
      }
    }
  }
}

void FourierPlan::run(Complex* data, bool inverse, std::vector<Complex>& scratch) const {
  if (chirp_.empty()) {
    power_of_two(data, inverse);
    return;
  }
  // The inverse is the conjugate of the transform of the conjugate.
  scratch.assign(static_cast<size_t>(padded_), {});
  for (int64_t n = 0; n < length_; ++n)
    scratch[static_cast<size_t>(n)] = times(inverse ? conjugate(data[n]) : data[n], chirp_[static_cast<size_t>(n)]);
  power_of_two(scratch.data(), false);
  for (size_t i = 0; i < scratch.size(); ++i) scratch[i] = times(scratch[i], filter_[i]);
  power_of_two(scratch.data(), true);
  const double scale = 1 / static_cast<double>(padded_);
  for (int64_t k = 0; k < length_; ++k) {
    const Complex y = times(scratch[static_cast<size_t>(k)], chirp_[static_cast<size_t>(k)]);
    data[k] = {y.re * scale, (inverse ? -y.im : y.im) * scale};
  }
}

}  // namespace camshaft::ops
