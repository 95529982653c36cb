// Convolutions of narrow groups: the kernel against plain loops, the tactic against the reference evaluation.
#include "backends/cpu/kernels/conv/grouped_conv.h"

#include "backends/cpu/conv_test_util.h"
#include "base/error.h"

namespace camshaft::cpu::grouped_conv_test {
namespace {

class GroupedConv : public Conv {};

void check_grouped(const ConvShape& s, RandomData& random, ThreadPool& pool, float poison = 0.0f) {
  SCOPED_TRACE(testing::Message() << describe(s) << " threads " << pool.size());
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t channels = s.in_channels / s.groups, points = s.kernel_d * s.kernel_h * s.kernel_w;
  std::vector<float> input = random.vector(s.batch * s.in_d * s.in_h * s.in_w * in_step);
  const std::vector<float> weights = random.vector(s.out_channels * channels * points);
  if (poison != 0.0f) input[at(random.integer(0, static_cast<int64_t>(input.size()) - 1))] = poison;
  const GroupedWeights w = grouped_weights(s.out_channels, channels, s.kernel_d * s.kernel_h, s.kernel_w, s.groups);
  std::vector<float> packed(at(w.floats()), kGuard), together(packed.size()), back(weights.size());
  pack_grouped_weights(w, weights.data(), packed.data());
  pack_grouped_weights(w, weights.data(), together.data(), pool);
  ASSERT_EQ(packed, together);
  unpack_grouped_weights(w, packed.data(), back.data());
  ASSERT_EQ(weights, back);
  Workspace workspace(grouped_conv_workspace_bytes(w, s, pool.size()));
  check(random, reference_conv(s, input, weights), s.out_channels,
        s.out_pixel_stride ? s.out_pixel_stride : s.out_channels, channels * points,
        [&](float* output, const Epilogue& e) {
          grouped_conv(w, s, input.data(), packed.data(), output, e, pool, workspace.get());
        });
}

// Few channels a group, and many groups, so that units are whole and not.
ConvShape random_groups(RandomData& random) {
  ConvShape s = random_shape(random);
  s.groups = random.integer(1, random.coin() ? 5 : 40);
  const int64_t most = random.coin() ? 4 : random.coin() ? 9 : 40;
  s.in_channels = s.groups * random.integer(1, most);
  s.out_channels = random.coin() ? s.in_channels : s.groups * random.integer(1, most);
  if (random.coin()) s.kernel_w = 3, s.dilation_w = 1;
  random_strides(random, s);
  return s;
}

TEST_F(GroupedConv, RandomShapes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 120; ++i) {
        check_grouped(random_groups(random_), random_, pool);
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(GroupedConv, ThreeDimensions) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (int i = 0; i < 60; ++i) {
      ConvShape s = random_groups(random_);
      s.in_h = random_.integer(1, 7), s.in_w = random_.integer(1, 7);
      s.in_d = random_.integer(1, 7), s.kernel_d = random_.integer(1, 3);
      s.stride_d = random_.integer(1, 2), s.dilation_d = random_.integer(1, 2);
      if (random_.coin()) s.pad_front = random_.integer(-1, 2), s.pad_back = random_.integer(-1, 2);
      check_grouped(s, random_, pool);
      if (HasFatalFailure()) return;
    }
  });
}

// Lines so long, or so many under a row, that few units are copied at a time; and one line alone.
TEST_F(GroupedConv, LongLinesAndLargeKernels) {
  ThreadPool pool(2);
  for_each_target([&] {
    ConvShape wide{.in_h = 3, .in_w = 1500, .in_channels = 96, .out_channels = 96, .kernel_h = 3, .kernel_w = 3};
    wide.groups = 24;
    wide.pad_top = wide.pad_left = 1;
    check_grouped(wide, random_, pool);
    ConvShape large{.in_h = 40, .in_w = 40, .in_channels = 24, .out_channels = 48, .kernel_h = 11, .kernel_w = 13};
    large.groups = 8;
    large.dilation_h = 2;
    large.pad_top = large.pad_bottom = 15;
    large.pad_left = large.pad_right = 60;  // outputs that see padding alone
    check_grouped(large, random_, pool);
    ConvShape signal{.in_w = 333, .in_channels = 80, .out_channels = 160, .kernel_w = 9, .stride_w = 2};
    signal.groups = 20;
    signal.pad_left = 8;
    check_grouped(signal, random_, pool);
  });
}

TEST_F(GroupedConv, EmptyOutputs) {
  ThreadPool pool(2);
  ConvShape s{.in_h = 2, .in_w = 2, .in_channels = 8, .out_channels = 8, .kernel_h = 3, .kernel_w = 3, .groups = 4};
  check_grouped(s, random_, pool);
  s.kernel_h = 1;
  check_grouped(s, random_, pool);
  s.kernel_w = 1, s.batch = 0;
  check_grouped(s, random_, pool);
  s.batch = 1, s.in_h = 0, s.pad_top = 2;  // no image, yet outputs: the bias
  check_grouped(s, random_, pool);
  s.in_channels = 0;
  check_grouped(s, random_, pool);
}

TEST_F(GroupedConv, NanAndInfinityStayInTheirWindowAndGroup) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      for (const int64_t groups : {3, 6, 12, 24}) {
        ConvShape s{.in_h = 9, .in_w = 8, .in_channels = 24, .out_channels = 48, .kernel_h = 3, .kernel_w = 3};
        s.pad_top = s.pad_left = 1;
        s.groups = groups;
        check_grouped(s, random_, pool, poison);
      }
    }
  });
}

TEST_F(GroupedConv, ShapesThatDoNotFitTheWeightsAreRefused) {
  ThreadPool pool(1);
  EXPECT_THROW(grouped_conv(grouped_weights(8, 2, 1, 1, 4), {.in_channels = 12, .out_channels = 8, .groups = 4},
                            nullptr, nullptr, nullptr, {}, pool, nullptr),
               Error);
}

}  // namespace
}  // namespace camshaft::cpu::grouped_conv_test
