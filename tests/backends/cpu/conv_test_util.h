// What the tests of convolution kernels share: random problems, plain loops in double precision, a check with random
// epilogues.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/conv/conv_transpose.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kGuard = -77.0f;

inline size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

inline std::string describe(const ConvShape& s) {
  std::ostringstream out;
  out << "[" << s.batch << "," << s.in_h << "," << s.in_w << "," << s.in_channels << "] -> " << s.out_channels
      << " kernel " << s.kernel_h << "x" << s.kernel_w << " stride " << s.stride_h << "," << s.stride_w << " dilation "
      << s.dilation_h << "," << s.dilation_w << " pads " << s.pad_top << "," << s.pad_left << "," << s.pad_bottom << ","
      << s.pad_right << " depth " << s.in_d << " kernel " << s.kernel_d << " stride " << s.stride_d << " dilation "
      << s.dilation_d << " pads " << s.pad_front << "," << s.pad_back << " groups " << s.groups << " pixel strides "
      << s.in_pixel_stride << "," << s.out_pixel_stride;
  return out.str();
}

struct Sum {
  double value = 0, scale = 0;
  void add(double x, double w) {
    value += x * w;
    scale += std::fabs(x * w);
  }
};

// Sums in NHWC order. `input` has in_pixel_stride, weights are OIHW.
inline std::vector<Sum> reference_conv(const ConvShape& s, const std::vector<float>& input,
                                       const std::vector<float>& weights) {
  const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t channels = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  std::vector<Sum> out(at(s.batch * s.out_d() * s.out_h() * s.out_w() * s.out_channels));
  size_t index = 0;
  for (int64_t plane = 0; plane < s.batch * s.out_d(); ++plane) {
    const int64_t b = plane / s.out_d(), z = plane % s.out_d();
    for (int64_t y = 0; y < s.out_h(); ++y) {
      for (int64_t x = 0; x < s.out_w(); ++x) {
        for (int64_t o = 0; o < s.out_channels; ++o, ++index) {
          for (int64_t line = 0; line < s.kernel_d * s.kernel_h; ++line) {
            const int64_t iz = z * s.stride_d + line / s.kernel_h * s.dilation_d - s.pad_front;
            const int64_t iy = y * s.stride_h + line % s.kernel_h * s.dilation_h - s.pad_top;
            for (int64_t j = 0; j < s.kernel_w; ++j) {
              const int64_t ix = x * s.stride_w + j * s.dilation_w - s.pad_left;
              if (iz < 0 || iz >= s.in_d || iy < 0 || iy >= s.in_h || ix < 0 || ix >= s.in_w) continue;
              for (int64_t c = 0; c < channels; ++c) {
                const int64_t pixel = ((b * s.in_d + iz) * s.in_h + iy) * s.in_w + ix;
                out[index].add(input[at(pixel * step + o / outputs * channels + c)],
                               weights[at(((o * channels + c) * s.kernel_d * s.kernel_h + line) * s.kernel_w + j)]);
              }
            }
          }
        }
      }
    }
  }
  return out;
}

// The same of a transposed convolution, whose weights are IOHW.
inline std::vector<Sum> reference_transpose(const ConvTransposeShape& s, const std::vector<float>& input,
                                            const std::vector<float>& weights) {
  const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t channels = s.in_channels / s.groups, outputs = s.out_channels / s.groups;
  std::vector<Sum> out(at(s.batch * s.out_d() * s.out_h() * s.out_w() * s.out_channels));
  const int64_t in_pixels = s.in_d * s.in_h * s.in_w, points = s.kernel_d * s.kernel_h * s.kernel_w;
  for (int64_t pixel = 0; pixel < s.batch * in_pixels; ++pixel) {
    const int64_t b = pixel / in_pixels, iz = pixel / (s.in_h * s.in_w) % s.in_d;
    const int64_t iy = pixel / s.in_w % s.in_h, ix = pixel % s.in_w;
    for (int64_t point = 0; point < points; ++point) {
      const int64_t k = point / (s.kernel_h * s.kernel_w), i = point / s.kernel_w % s.kernel_h, j = point % s.kernel_w;
      const int64_t z = iz * s.stride_d + k * s.dilation_d - s.pad_front;
      const int64_t y = iy * s.stride_h + i * s.dilation_h - s.pad_top;
      const int64_t x = ix * s.stride_w + j * s.dilation_w - s.pad_left;
      if (z < 0 || z >= s.out_d() || y < 0 || y >= s.out_h() || x < 0 || x >= s.out_w()) continue;
      const int64_t to = ((b * s.out_d() + z) * s.out_h() + y) * s.out_w() + x;
      for (int64_t c = 0; c < s.in_channels; ++c)
        for (int64_t o = 0; o < outputs; ++o)
          out[at(to * s.out_channels + c / channels * outputs + o)].add(
              input[at(pixel * step + c)], weights[at((c * outputs + o) * points + point)]);
    }
  }
  return out;
}

struct Negator {
  float* c;
  int64_t ld;
  static void call(void* context, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
    auto* self = static_cast<Negator*>(context);
    for (int64_t i = row0; i < row0 + rows; ++i) {
      for (int64_t j = col0; j < col0 + cols; ++j) self->c[i * self->ld + j] = -self->c[i * self->ld + j];
    }
  }
};

// From [n, pixels, c] to [n, c, pixels], without gaps.
template <class T>
std::vector<T> to_first(const std::vector<T>& last, int64_t batch, int64_t pixels, int64_t channels) {
  std::vector<T> first(last.size());
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c)
        first[at((n * channels + c) * pixels + p)] = last[at((n * pixels + p) * channels + c)];
  return first;
}

// Random epilogue, run, comparison. `run(output, epilogue)` computes pixels x channels with `stride` floats a pixel.
template <class Run>
void check(RandomData& random, const std::vector<Sum>& sums, int64_t channels, int64_t stride, int64_t terms,
           Run&& run) {
  const int64_t pixels = channels == 0 ? 0 : static_cast<int64_t>(sums.size()) / channels;
  const std::vector<float> bias = random.vector(channels), residual = random.vector(pixels * stride);
  std::vector<float> output(at(pixels * stride), kGuard);
  const int64_t residual_kind = random.integer(0, 2);
  if (residual_kind == 2) output = residual;
  Epilogue e;
  if (random.coin()) e.bias = bias.data();
  if (residual_kind) e.residual = residual_kind == 2 ? output.data() : residual.data();
  e.residual_ld = stride;
  if (random.coin()) e.lo = 0.0f;
  if (random.coin()) e.hi = 1.0f;
  const Activation activation = random_activation(random);
  const std::vector<float> addend = random.vector(pixels * stride);
  if (random.coin()) {
    e.activation = &activation;
    if (random.coin()) e.addend = addend.data(), e.addend_ld = stride;
  }
  Negator negator{output.data(), stride};
  if (random.coin()) e.callback = Negator::call, e.context = &negator;
  run(output.data(), e);
  for (int64_t p = 0; p < pixels; ++p) {
    for (int64_t c = 0; c < stride; ++c) {
      const float actual = output[at(p * stride + c)];
      if (c >= channels) {
        ASSERT_EQ(actual, residual_kind == 2 ? residual[at(p * stride + c)] : kGuard) << "gap written";
        continue;
      }
      double value = sums[at(p * channels + c)].value;
      if (e.bias) value += bias[at(c)];
      if (e.residual) value += residual[at(p * stride + c)];
      if (!std::isnan(value)) value = std::clamp<double>(value, e.lo, e.hi);
      double scale = sums[at(p * channels + c)].scale;
      if (e.activation) {
        value = activation_reference(activation, value);
        scale = 10 * (1 + scale) * (1 + scale);  // slopes up to 1, cubics more
        if (std::isnan(scale)) scale = 10;       // a step makes a number of NaN
      }
      if (e.addend) value += addend[at(p * stride + c)];
      if (e.callback) value = -value;
      ASSERT_TRUE(close_enough(actual, value, scale, terms))
          << "pixel " << p << " channel " << c << ": " << actual << " for " << value << " bias " << bool(e.bias)
          << " residual " << residual_kind << " activation " << (e.activation ? int(activation.core) : -1)
          << activation.gated << " clamp " << e.lo << ".." << e.hi << " callback " << bool(e.callback);
    }
  }
}

// A kernel that reads and writes the channels first, `run(input, output, epilogue)`, against `sums`, with a random
// epilogue of a bias, a clamp and an activation.
template <class Run>
void check_channels_first(RandomData& random, const std::vector<float>& input, const std::vector<Sum>& sums,
                          int64_t channels, int64_t pixels, int64_t terms, Run&& run) {
  const std::vector<float> bias = random.vector(channels);
  const Activation activation = random_activation(random);
  Epilogue e;
  if (random.coin()) e.bias = bias.data();
  if (random.coin()) e.lo = 0.0f;
  if (random.coin()) e.hi = 1.0f;
  if (random.coin()) e.activation = &activation;
  std::vector<float> output(sums.size() + 16, kGuard);
  run(input.data(), output.data(), e);
  for (int64_t flat = 0; flat < std::ssize(output); ++flat) {
    const float actual = output[at(flat)];
    if (flat >= std::ssize(sums)) {
      ASSERT_EQ(actual, kGuard) << "written behind the result";
      continue;
    }
    const Sum& sum = sums[at(flat)];
    const int64_t channel = flat / pixels % channels;
    double value = sum.value + (e.bias ? bias[at(channel)] : 0), scale = sum.scale;
    if (!std::isnan(value)) value = std::clamp<double>(value, e.lo, e.hi);
    if (e.activation) {
      value = activation_reference(activation, value);
      scale = std::isnan(scale) ? 10 : 10 * (1 + scale) * (1 + scale);
    }
    ASSERT_TRUE(close_enough(actual, value, scale, terms))
        << "channel " << channel << " pixel " << flat % pixels << ": " << actual << " for " << value;
  }
}

// Now and then with an infinity or a NaN.
inline std::vector<float> random_input(RandomData& random, int64_t count) {
  std::vector<float> input = random.vector(count);
  if (random.integer(0, 4) == 0 && count > 0)
    input[at(random.integer(0, count - 1))] = random.coin() ? kInfinity : std::nanf("");
  return input;
}

inline ConvShape random_shape(RandomData& random) {
  ConvShape s;
  s.batch = random.integer(1, 3);
  s.in_h = random.integer(1, 15), s.in_w = random.integer(1, 15);
  s.kernel_h = random.integer(1, 4), s.kernel_w = random.integer(1, 4);
  if (random.integer(0, 3) == 0) s.kernel_h = s.kernel_w = 1;
  s.stride_h = random.integer(1, 3), s.stride_w = random.integer(1, 3);
  if (random.coin()) s.stride_h = s.stride_w = 1;
  s.dilation_h = random.coin() ? 1 : random.integer(1, 3), s.dilation_w = random.coin() ? 1 : random.integer(1, 3);
  if (random.coin()) {
    s.pad_top = random.integer(-1, 3), s.pad_left = random.integer(-1, 3);
    s.pad_bottom = random.integer(-1, 3), s.pad_right = random.integer(-1, 3);
  }
  s.groups = random.coin() ? 1 : random.integer(1, 4);
  s.in_channels = s.groups * random.integer(1, random.coin() ? 4 : 40);
  s.out_channels = s.groups * random.integer(1, random.coin() ? 9 : 90);
  return s;
}

inline void random_strides(RandomData& random, ConvShape& s) {
  if (random.integer(0, 3) == 0) s.in_pixel_stride = s.in_channels + random.integer(1, 5);
  if (random.integer(0, 3) == 0) s.out_pixel_stride = s.out_channels + random.integer(1, 5);
}

class Conv : public testing::Test {
 protected:
  RandomData random_;
};

}  // namespace camshaft::cpu
