// Winograd convolution against conv(), which conv_test.cpp checks.
#include "backends/cpu/kernels/conv/winograd.h"

#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/conv/winograd_factors.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace camshaft::cpu::winograd_test {
namespace {

struct Counter {
  std::vector<int> seen;
  int64_t channels;
  static void call(void* context, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
    auto* self = static_cast<Counter*>(context);
    for (int64_t r = row0; r < row0 + rows; ++r) {
      for (int64_t c = col0; c < col0 + cols; ++c) ++self->seen[static_cast<size_t>(r * self->channels + c)];
    }
  }
};

void check(ConvShape s, RandomData& random, ThreadPool& pool) {
  SCOPED_TRACE(testing::Message() << s.batch << "x" << s.in_h << "x" << s.in_w << " channels " << s.in_channels
                                  << " -> " << s.out_channels << " pads " << s.pad_top << "," << s.pad_left << ","
                                  << s.pad_bottom << "," << s.pad_right << " dilations " << s.dilation_h << ","
                                  << s.dilation_w << " threads " << pool.size());
  s.kernel_h = s.kernel_w = 3;
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  const int64_t pixels = s.batch * s.out_h() * s.out_w();
  const std::vector<float> input = random.vector(s.batch * s.in_h * s.in_w * in_step);
  const std::vector<float> weights = random.vector(s.out_channels * s.in_channels * 9);
  const std::vector<float> bias = random.vector(s.out_channels), residual = random.vector(pixels * out_step);
  std::vector<float> expected(residual.size(), -77.0f), actual = expected;
  Epilogue e;
  if (random.coin()) e.bias = bias.data();
  if (random.coin()) e.residual = residual.data(), e.residual_ld = out_step;
  if (random.coin()) e.lo = 0.0f;
  if (random.coin()) e.hi = 1.0f;

  const ConvWeights direct = conv_weights(s.out_channels, s.in_channels, 3, 3, 1);
  std::vector<float> direct_packed(static_cast<size_t>(direct.floats()));
  pack_conv_weights(direct, weights.data(), direct_packed.data());
  const ConvPlan plan(s);
  Workspace direct_workspace(plan.workspace_bytes(pool.size()));
  conv(plan, input.data(), direct_packed.data(), expected.data(), e, pool, direct_workspace.get());

  const WinogradWeights w = winograd_weights(random.coin() ? 4 : 2, s.out_channels, s.in_channels);
  SCOPED_TRACE(testing::Message() << "tile " << w.tile);
  std::vector<float> packed(static_cast<size_t>(w.floats()));
  pack_winograd_weights(w, weights.data(), packed.data());
  Counter counter{std::vector<int>(static_cast<size_t>(pixels * s.out_channels), 0), s.out_channels};
  e.callback = Counter::call, e.context = &counter;
  Workspace workspace(winograd_workspace_bytes(w.tile, s, pool.size()));
  winograd(w, s, input.data(), packed.data(), actual.data(), e, pool, workspace.get());

  // The terms' sizes add up to 9/4 a channel. A fifth of what the points 0, +-1, +-2 would take.
  const double bound = 1e-5 + 2e-6 * static_cast<double>(s.in_channels);
  for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound) << i;
  for (const int times : counter.seen) ASSERT_EQ(times, 1);
}

TEST(Winograd, RandomShapes) {
  RandomData random;
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 40; ++i) {
        ConvShape s;
        s.batch = random.integer(0, 3);
        s.in_h = random.integer(1, 22), s.in_w = random.integer(1, 22);
        s.in_channels = random.integer(1, 70), s.out_channels = random.integer(1, 70);
        s.kernel_h = s.kernel_w = 3;
        if (random.coin()) s.pad_top = random.integer(-1, 2), s.pad_left = random.integer(-1, 2);
        if (random.coin()) s.dilation_h = random.integer(1, 5), s.dilation_w = random.integer(1, 5);
        if (random.coin()) s.pad_bottom = random.integer(-1, 2), s.pad_right = random.integer(-1, 2);
        if (random.coin()) s.in_pixel_stride = s.in_channels + 3, s.out_pixel_stride = s.out_channels + 5;
        check(s, random, pool);
      }
    });
    check({.batch = 2, .in_h = 60, .in_w = 50, .in_channels = 64, .out_channels = 80, .pad_top = 1, .pad_left = 1},
          random, pool);
    check({.in_h = 9, .in_w = 9, .in_channels = 512, .out_channels = 20}, random, pool);
    ConvShape far{.batch = 2, .in_h = 30, .in_w = 33, .in_channels = 40, .out_channels = 40};
    far.pad_top = far.pad_left = far.pad_bottom = far.pad_right = far.dilation_h = far.dilation_w = 12;
    check(far, random, pool);
  }
}

// As it is defined: a matrix for each point, whose sums are in f64 and in the weights' order.
std::vector<float> transformed_one_by_one(const WinogradWeights& w, const std::vector<float>& oihw) {
  const WinogradFactors factors(w.tile);
  std::vector<float> all(static_cast<size_t>(w.floats())), matrix(static_cast<size_t>(w.out_channels * w.in_channels));
  for (int64_t point = 0; point < w.points(); ++point) {
    for (size_t i = 0; i < matrix.size(); ++i) {
      double sum = 0;
      for (size_t t = 0; t < 9; ++t) sum += factors.of[point][t] * static_cast<double>(oihw[i * 9 + t]);
      matrix[i] = static_cast<float>(sum);
    }
    pack_b(w.layout, matrix.data(), 1, w.in_channels, all.data() + point * w.matrix_stride());
  }
  return all;
}

TEST(Winograd, PackedWeightsAreTheSameOnEveryTarget) {
  RandomData random;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 40; ++i) {
    WinogradWeights w = winograd_weights(random.coin() ? 4 : 2, random.integer(1, 80), random.integer(1, 20));
    // The panels of machines with narrower and wider vectors.
    if (i % 4 != 0) w.layout.lanes = i % 4 == 1 ? 4 : 16, w.layout.width = i % 4 == 1 ? 12 : 64;
    SCOPED_TRACE(testing::Message() << w.tile << " " << w.out_channels << " " << w.in_channels << " " << i % 4);
    std::vector<float> weights = random.vector(w.out_channels * w.in_channels * 9);
    weights[0] = 0.0f, weights.back() = -0.0f;
    if (i % 5 == 0) weights[weights.size() / 2] = random.coin() ? infinity : nan;
    const std::vector<float> expected = transformed_one_by_one(w, weights);
    for_each_target([&] {
      std::vector<float> packed(expected.size());
      pack_winograd_weights(w, weights.data(), packed.data());
      for (size_t at = 0; at < packed.size(); ++at) {
        if (std::isnan(expected[at])) {
          ASSERT_TRUE(std::isnan(packed[at])) << at;
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(packed[at]), std::bit_cast<uint32_t>(expected[at])) << at;
        }
      }
    });
  }
}

TEST(Winograd, OtherConvolutionsAreRefused) {
  ThreadPool pool(1);
  const ConvShape s{
      .in_h = 9, .in_w = 9, .in_channels = 4, .out_channels = 4, .kernel_h = 3, .kernel_w = 3, .stride_w = 2};
  EXPECT_FALSE(winograd_supports(s));
  EXPECT_THROW(winograd(winograd_weights(4, 4, 4), s, nullptr, nullptr, nullptr, {}, pool, nullptr), Error);
}

}  // namespace
}  // namespace camshaft::cpu::winograd_test
