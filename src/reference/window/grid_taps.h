// Which pixels a sample of GridSample takes, and with which weights: for the reference and for kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/ops/sample.h"
#include "ir/tensor.h"

namespace camshaft::ops {

/// The taps of one position along one axis: pixel (-1: outside, a zero) and weight.
struct AxisTaps {
  int64_t pixel[4];
  double weight[4];
};

class AxisSampler {
 public:
  AxisSampler(const GridSample& op, int64_t size)
      : mode_(op.mode), padding_(op.padding), align_corners_(op.align_corners), size_(size) {
    low_ = align_corners_ ? 0 : -0.5;
    high_ = align_corners_ ? static_cast<double>(size - 1) : static_cast<double>(size) - 0.5;
  }
  int taps() const { return mode_ == SampleMode::cubic ? 4 : mode_ == SampleMode::linear ? 2 : 1; }

  AxisTaps at(double position) const {
    const auto size = static_cast<double>(size_);
    double x = align_corners_ ? (position + 1) / 2 * (size - 1) : ((position + 1) * size - 1) / 2;
    // What is not a number, or so far out that pixels cannot be counted, lies outside.
    if (!(std::fabs(x) < 0x1p52))
      x = std::isnan(x) || padding_ == SamplePadding::reflection ? -1 : x < 0 ? -2 : size + 2;
    if (mode_ == SampleMode::nearest) x = std::nearbyint(x);
    if (mode_ != SampleMode::cubic && padding_ != SamplePadding::zeros) x = inside(x);
    AxisTaps t{};
    if (mode_ == SampleMode::nearest) {
      t.pixel[0] = pixel(std::nearbyint(x));
      t.weight[0] = 1;
      return t;
    }
    const double floor = std::floor(x), rest = x - floor;
    if (mode_ == SampleMode::linear) {
      t.weight[0] = 1 - rest;
      t.weight[1] = rest;
    } else {
      cubic_weights(rest, t.weight);
    }
    const double first = mode_ == SampleMode::cubic ? floor - 1 : floor;
    for (int i = 0; i < taps(); ++i) t.pixel[i] = pixel(first + i);
    return t;
  }

 private:
  // Keys' cubic convolution with a = -0.75, as PyTorch's.
  static void cubic_weights(double t, double* w) {
    constexpr double a = -0.75;
    const auto near = [](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
    const auto far = [](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
    w[0] = far(t + 1);
    w[1] = near(t);
    w[2] = near(1 - t);
    w[3] = far(2 - t);
  }
  static double reflect_into(double x, double low, double high) {
    const double range = high - low;
    if (!(range > 0)) return low;
    const double distance = std::fabs(x - low), turns = std::floor(distance / range);
    const double rest = distance - turns * range;
    return std::fmod(turns, 2) == 0 ? low + rest : high - rest;
  }
  double inside(double x) const {
    if (padding_ == SamplePadding::reflection) x = reflect_into(x, low_, high_);
    return std::clamp(x, 0.0, static_cast<double>(size_ - 1));
  }
  int64_t pixel(double at) const {
    if (padding_ == SamplePadding::zeros)
      return at >= 0 && at < static_cast<double>(size_) ? static_cast<int64_t>(at) : -1;
    return static_cast<int64_t>(inside(at));
  }

  SampleMode mode_;
  SamplePadding padding_;
  bool align_corners_;
  int64_t size_;
  double low_, high_;
};

/// All taps of a position: the products of those of its axes, offsets into an image of `strides`. The position runs
/// from the last axis to the first. `pixels` and `weights` have room for all; -1: outside.
inline void taps_at(const std::vector<AxisSampler>& axes, const Dims& strides, const double* position, int64_t* pixels,
                    double* weights) {
  // In place from the back: each axis multiplies the list.
  size_t count = 1;
  pixels[0] = 0;
  weights[0] = 1;
  for (size_t a = 0; a < axes.size(); ++a) {
    const AxisTaps t = axes[a].at(position[axes.size() - 1 - a]);
    const auto n = static_cast<size_t>(axes[a].taps());
    for (size_t i = count; i-- > 0;) {
      const int64_t pixel = pixels[i];
      const double weight = weights[i];
      for (size_t k = n; k-- > 0;) {
        pixels[i * n + k] = pixel < 0 || t.pixel[k] < 0 ? -1 : pixel + t.pixel[k] * strides[a];
        weights[i * n + k] = weight * t.weight[k];
      }
    }
    count *= n;
  }
}

}  // namespace camshaft::ops
