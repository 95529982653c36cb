// Convolution of images with few channels against plain loops in double precision.
#include "backends/cpu/kernels/conv/stem_conv.h"

#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/guarded.h"
#include "base/error.h"

namespace camshaft::cpu::stem_conv_test {
namespace {

void check_stem_conv(const ConvShape& s, RandomData& random, ThreadPool& pool, float poison = 0.0f) {
  const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  std::vector<float> input = random.vector(s.batch * s.in_h * s.in_w * step);
  const std::vector<float> weights = random.vector(s.out_channels * s.in_channels * s.kernel_h * s.kernel_w);
  if (poison != 0.0f) input[at(random.integer(0, static_cast<int64_t>(input.size()) - 1))] = poison;
  const ConvWeights w = conv_weights(s.out_channels, s.in_channels, s.kernel_h, s.kernel_w, 1);
  std::vector<float> packed(at(w.floats()));
  pack_conv_weights(w, weights.data(), packed.data());
  for (const bool channels_first : {false, true}) {
    SCOPED_TRACE(testing::Message() << describe(s) << " threads " << pool.size() << " first " << channels_first);
    Tensor x(DType::f32, {static_cast<int64_t>(input.size())});
    std::copy(input.begin(), input.end(), x.as_mutable<float>());
    if (channels_first) {
      x = Tensor(DType::f32, {s.batch, s.in_channels, s.in_h, s.in_w});
      for (int64_t b = 0; b < s.batch; ++b)
        for (int64_t c = 0; c < s.in_channels; ++c)
          for (int64_t i = 0; i < s.in_h * s.in_w; ++i)
            x.as_mutable<float>()[(b * s.in_channels + c) * s.in_h * s.in_w + i] =
                input[at((b * s.in_h * s.in_w + i) * step + c)];
    }
    x = guarded(x);
    const StemConvPlan plan(s, channels_first);
    Workspace workspace(plan.workspace_bytes(pool.size()));
    check(random, reference_conv(s, input, weights), s.out_channels,
          s.out_pixel_stride ? s.out_pixel_stride : s.out_channels, w.layout.k, [&](float* output, const Epilogue& e) {
            stem_conv(plan, x.as<float>(), packed.data(), output, e, pool, workspace.get());
          });
  }
}

ConvShape random_thin(RandomData& random) {
  ConvShape s = random_shape(random);
  s.groups = 1;
  s.in_channels = random.integer(1, 5);
  s.out_channels = random.integer(1, 150);
  s.in_h = random.integer(1, 20), s.in_w = random.integer(1, 90);
  s.stride_h = random.integer(1, 4), s.stride_w = random.integer(1, 5);
  random_strides(random, s);
  return s;
}

TEST_F(Conv, ThinRandomShapes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 100; ++i) check_stem_conv(random_thin(random_), random_, pool);
    });
  }
}

TEST_F(Conv, ThinImagesOfModels) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const int64_t channels : {16, 24, 32, 48, 64}) {
      ConvShape s{.in_h = 30, .in_w = 64, .in_channels = 3, .out_channels = channels, .kernel_h = 3, .kernel_w = 3};
      s.stride_h = s.stride_w = 2;
      s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 1;
      check_stem_conv(s, random_, pool);
      s.kernel_h = s.kernel_w = 7;
      s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 3;
      check_stem_conv(s, random_, pool);
      s.stride_h = s.stride_w = 4;
      check_stem_conv(s, random_, pool);
    }
    check_stem_conv({.in_w = 100, .in_channels = 1, .out_channels = 20, .kernel_w = 10, .stride_w = 5}, random_, pool);
  });
}

TEST_F(Conv, ThinNanAndInfinityStayInTheirWindow) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      ConvShape s{.in_h = 9, .in_w = 23, .in_channels = 3, .out_channels = 24, .kernel_h = 3, .kernel_w = 3};
      s.pad_top = s.pad_left = 1;
      s.stride_w = 2;
      check_stem_conv(s, random_, pool, poison);
    }
  });
}

TEST_F(Conv, ThinEmptyOutputsAndRefusals) {
  ThreadPool pool(2);
  check_stem_conv({.in_h = 2, .in_w = 2, .in_channels = 3, .out_channels = 4, .kernel_h = 3, .kernel_w = 3}, random_,
                  pool);
  check_stem_conv({.batch = 0, .in_h = 2, .in_w = 2, .in_channels = 3, .out_channels = 4}, random_, pool);
  check_stem_conv({.in_h = 2, .in_w = 2, .in_channels = 3, .out_channels = 0}, random_, pool);
  check_stem_conv({.in_h = 2, .in_w = 2, .in_channels = 0, .out_channels = 4}, random_, pool);
  EXPECT_THROW(StemConvPlan({.in_channels = 4, .out_channels = 4, .groups = 2}, false), Error);
  EXPECT_THROW(StemConvPlan({.in_channels = 4, .out_channels = 4, .stride_w = 0}, false), Error);
}

}  // namespace
}  // namespace camshaft::cpu::stem_conv_test
