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

constexpr int64_t largest_factor = 7;

// The prime factors, if none is larger than that; those of 2 come last, whose steps are the cheapest.
std::vector<int64_t> small_factors(int64_t length) {
  std::vector<int64_t> factors;
  for (int64_t factor = largest_factor; factor >= 2; --factor)
    for (; length % factor == 0 && factor != 4 && factor != 6; length /= factor) factors.push_back(factor);
  if (length != 1) factors.clear();
  return factors;
}

}  // namespace

FourierPlan::FourierPlan(int64_t length) : length_(length) {
  constexpr int64_t longest = int64_t{1} << 28;
  if (length < 1 || length > longest) fail_rule("a transform of length {} is not possible", length);
  const bool is_power = (length & (length - 1)) == 0;
  if (!is_power) factors_ = small_factors(length);
  if (!factors_.empty()) {
    for (int64_t k = 0; k < length; ++k)
      twiddles_.push_back(unit(-2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length)));
    return;
  }
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

// Of `length` values that lie length_ / length apart: those of each remainder by the factor are transformed, and
// joined.
void FourierPlan::by_factors(const Complex* in, Complex* out, int64_t length, size_t factor) const {
  const int64_t count = factors_[factor], part = length / count, apart = length_ / length;
  for (int64_t r = 0; r < count; ++r) {
    if (part == 1) {
      out[r] = in[r * apart];
    } else {
      by_factors(in + r * apart, out + r * part, part, factor + 1);
    }
  }
  PacedCancellation cancellation;
  const auto twiddle = [&](int64_t k) { return twiddles_[static_cast<size_t>(k)]; };
  Complex roots[largest_factor];
  for (int64_t q = 0; q < count; ++q) roots[q] = twiddle(q * (length_ / count));
  for (int64_t k = 0; k < part; ++k) {
    cancellation.did(count * count);
    Complex terms[largest_factor] = {out[k]};
    for (int64_t r = 1; r < count; ++r) terms[r] = times(out[r * part + k], twiddle(r * k * apart));
    if (count == 2) {
      out[k] = {terms[0].re + terms[1].re, terms[0].im + terms[1].im};
      out[k + part] = {terms[0].re - terms[1].re, terms[0].im - terms[1].im};
      continue;
    }
    for (int64_t q = 0; q < count; ++q) {
      Complex sum = terms[0];
      for (int64_t r = 1, at = q; r < count; ++r) {
        const Complex term = times(terms[r], roots[at]);
        sum = {sum.re + term.re, sum.im + term.im};
        at = at + q < count ? at + q : at + q - count;  // r · q, less whole turns
      }
      out[k + q * part] = sum;
    }
  }
}

void FourierPlan::run(Complex* data, bool inverse, std::vector<Complex>& scratch) const {
  if (!factors_.empty()) {
    scratch.resize(static_cast<size_t>(length_));
    for (int64_t n = 0; n < length_; ++n) scratch[static_cast<size_t>(n)] = inverse ? conjugate(data[n]) : data[n];
    by_factors(scratch.data(), data, length_, 0);
    for (int64_t k = 0; inverse && k < length_; ++k) data[k] = conjugate(data[k]);
    return;
  }
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
