// Convolution, depthwise and transposed convolution against plain loops in double precision.
#include "backends/cpu/kernels/conv/conv.h"

#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/kernels/conv/depthwise.h"
#include "base/error.h"

namespace camshaft::cpu::conv_test {
namespace {

void check_conv(const ConvShape& s, RandomData& random, ThreadPool& pool, float poison = 0.0f) {
  SCOPED_TRACE(testing::Message() << describe(s) << " threads " << pool.size());
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  std::vector<float> input = random.vector(s.batch * s.in_d * s.in_h * s.in_w * in_step);
  const std::vector<float> weights =
      random.vector(s.out_channels * (s.in_channels / s.groups) * s.kernel_d * s.kernel_h * s.kernel_w);
  if (poison != 0.0f) input[at(random.integer(0, static_cast<int64_t>(input.size()) - 1))] = poison;
  const ConvWeights w =
      conv_weights(s.out_channels, s.in_channels / s.groups, s.kernel_d * s.kernel_h, s.kernel_w, s.groups);
  std::vector<float> packed(at(w.floats())), back(weights.size()), together(packed.size());
  pack_conv_weights(w, weights.data(), packed.data());
  pack_conv_weights(w, weights.data(), together.data(), pool);
  ASSERT_EQ(packed, together);
  unpack_conv_weights(w, packed.data(), back.data());
  ASSERT_EQ(weights, back);
  const ConvPlan plan(s);
  Workspace workspace(plan.workspace_bytes(pool.size()));
  check(random, reference_conv(s, input, weights), s.out_channels,
        s.out_pixel_stride ? s.out_pixel_stride : s.out_channels, w.layout.k, [&](float* output, const Epilogue& e) {
          conv(plan, input.data(), packed.data(), output, e, pool, workspace.get());
        });
}

void check_depthwise(const ConvShape& s, RandomData& random, ThreadPool& pool, float poison = 0.0f) {
  SCOPED_TRACE(testing::Message() << "depthwise " << describe(s) << " threads " << pool.size());
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  std::vector<float> input = random.vector(s.batch * s.in_h * s.in_w * in_step);
  const std::vector<float> weights = random.vector(s.out_channels * s.kernel_h * s.kernel_w);
  if (poison != 0.0f) input[at(random.integer(0, static_cast<int64_t>(input.size()) - 1))] = poison;
  std::vector<float> packed(at(depthwise_weight_floats(s.out_channels, s.kernel_h, s.kernel_w)));
  std::vector<float> back(weights.size());
  pack_depthwise_weights(s.out_channels, s.kernel_h, s.kernel_w, weights.data(), packed.data());
  unpack_depthwise_weights(s.out_channels, s.kernel_h, s.kernel_w, packed.data(), back.data());
  ASSERT_EQ(weights, back);
  check(random, reference_conv(s, input, weights), s.out_channels,
        s.out_pixel_stride ? s.out_pixel_stride : s.out_channels, s.kernel_h * s.kernel_w,
        [&](float* output, const Epilogue& e) { depthwise(s, input.data(), packed.data(), output, e, pool); });
}

TEST_F(Conv, RandomShapes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 100; ++i) {
        ConvShape s = random_shape(random_);
        random_strides(random_, s);
        check_conv(s, random_, pool);
      }
    });
  }
}

TEST_F(Conv, ThreeDimensions) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (int i = 0; i < 60; ++i) {
      ConvShape s = random_shape(random_);
      s.in_h = random_.integer(1, 7), s.in_w = random_.integer(1, 7);
      s.in_d = random_.integer(1, 7), s.kernel_d = random_.integer(1, 3);
      s.stride_d = random_.integer(1, 2), s.dilation_d = random_.integer(1, 2);
      if (random_.coin()) s.pad_front = random_.integer(-1, 2), s.pad_back = random_.integer(-1, 2);
      random_strides(random_, s);
      check_conv(s, random_, pool);
    }
  });
}

// Nothing remains, and workspaces of nothing are no negative sizes.
TEST_F(Conv, PadsCutOffMoreThanThereIs) {
  ThreadPool pool(2);
  ConvShape s{.batch = 9, .in_h = 1, .in_w = 999, .out_channels = 40, .kernel_h = 7, .kernel_w = 7};
  s.pad_top = s.pad_bottom = -1;
  for (const int64_t channels : {3, 160}) {
    s.in_channels = channels;
    EXPECT_GE(ConvPlan(s).workspace_bytes(2), 0);
    check_conv(s, random_, pool);
  }
}

TEST_F(Conv, MethodsAreChosenAndRight) {
  ThreadPool pool(2);
  ConvShape image{.in_h = 23, .in_w = 21, .in_channels = 3, .out_channels = 40, .kernel_h = 7, .kernel_w = 7};
  image.stride_h = image.stride_w = 2;
  image.pad_top = image.pad_left = image.pad_bottom = image.pad_right = 3;
  ConvShape wide{.in_h = 9, .in_w = 9, .in_channels = 160, .out_channels = 70, .kernel_h = 3, .kernel_w = 3};
  wide.pad_top = wide.pad_left = wide.pad_bottom = wide.pad_right = 1;
  ConvShape pointwise{.batch = 2, .in_h = 12, .in_w = 13, .in_channels = 150, .out_channels = 130};
  ConvShape strided = pointwise;
  strided.stride_h = strided.stride_w = 2;
  EXPECT_EQ(ConvPlan(image).method(), ConvPlan::Method::kernel_rows);
  EXPECT_EQ(ConvPlan(wide).method(), ConvPlan::Method::kernel_points);
  EXPECT_EQ(ConvPlan(pointwise).method(), ConvPlan::Method::pointwise);
  EXPECT_EQ(ConvPlan(strided).method(), ConvPlan::Method::kernel_points);
  for_each_target([&] {
    for (const ConvShape& s : {image, wide, pointwise, strided}) check_conv(s, random_, pool);
  });
}

// Taps that see only padding are left out, of single tiles, of whole blocks of K, and of all: then the bias alone is
// left.
TEST_F(Conv, DilationsBeyondTheImage) {
  for (int threads = 1; threads <= 2; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (const int64_t dilation : {6, 12, 24}) {
        ConvShape s{.batch = 2, .in_h = 14, .in_w = 16, .in_channels = 300, .out_channels = 70};
        s.kernel_h = s.kernel_w = 3;
        s.dilation_h = s.dilation_w = dilation;
        s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = dilation;
        check_conv(s, random_, pool);
        s.pad_top = s.pad_left = 2 * dilation + 9;  // whole tiles have no tap
        s.in_channels = 20;
        check_conv(s, random_, pool);
      }
    });
  }
}

TEST_F(Conv, LargeKernelsAndOneDimension) {
  ThreadPool pool(2);
  for_each_target([&] {
    check_conv(
        {.in_h = 20, .in_w = 20, .in_channels = 2, .out_channels = 20, .kernel_h = 17, .kernel_w = 19, .groups = 2},
        random_, pool);
    check_conv({.in_w = 200,
                .in_channels = 30,
                .out_channels = 33,
                .kernel_w = 9,
                .stride_w = 2,
                .dilation_w = 3,
                .pad_left = 8,
                .pad_right = 3},
               random_, pool);
    // A tap is several blocks of K.
    check_conv({.in_h = 9, .in_w = 11, .in_channels = 900, .out_channels = 70, .kernel_w = 2, .pad_left = 1}, random_,
               pool);
  });
}

// Dot products: sub-pixels, classes, a mask.
TEST_F(Conv, FewOutputs) {
  for (int threads = 1; threads <= 2; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        ConvShape s = random_shape(random_);
        s.groups = random_.coin() ? 1 : 2;
        s.in_channels = s.groups * random_.integer(8, 70);
        s.out_channels = s.groups * random_.integer(1, 12);
        random_strides(random_, s);
        check_conv(s, random_, pool, i % 5 == 0 ? std::numeric_limits<float>::quiet_NaN() : 0.0f);
      }
    });
  }
}

TEST_F(Conv, EmptyOutputs) {
  ThreadPool pool(2);
  check_conv({.in_h = 2, .in_w = 2, .in_channels = 3, .out_channels = 4, .kernel_h = 3, .kernel_w = 3}, random_, pool);
  check_conv({.batch = 0, .in_h = 2, .in_w = 2, .in_channels = 3, .out_channels = 4}, random_, pool);
  check_conv({.in_h = 2, .in_w = 2, .in_channels = 3, .out_channels = 0}, random_, pool);
  check_conv({.in_h = 2, .in_w = 2, .in_channels = 0, .out_channels = 4}, random_, pool);
}

TEST_F(Conv, NanAndInfinityStayInTheirWindowAndGroup) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const float poison : {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}) {
      ConvShape s{.in_h = 9, .in_w = 8, .in_channels = 12, .out_channels = 24, .kernel_h = 3, .kernel_w = 3};
      s.pad_top = s.pad_left = 1;
      check_conv(s, random_, pool, poison);
      s.groups = 3;
      check_conv(s, random_, pool, poison);
      s.groups = s.out_channels = 12;
      check_depthwise(s, random_, pool, poison);
    }
  });
}

TEST_F(Conv, ChannelsThatDoNotDivideAreRefused) {
  EXPECT_THROW(ConvPlan({.in_channels = 5, .out_channels = 4, .groups = 2}), Error);
  EXPECT_THROW(ConvPlan({.in_channels = 4, .out_channels = 4, .stride_w = 0}), Error);
  ThreadPool pool(1);
  EXPECT_THROW(depthwise({.in_channels = 4, .out_channels = 4, .groups = 2}, nullptr, nullptr, nullptr, {}, pool),
               Error);
}

TEST_F(Conv, DepthwiseRandomShapes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 100; ++i) {
        ConvShape s = random_shape(random_);
        s.in_w = random_.integer(1, 60);
        s.kernel_w = random_.integer(1, 8);
        if (random_.coin()) s.dilation_w = 1;  // rows by tiles that slide over the image
        if (random_.coin()) s.pad_left = s.pad_right = s.kernel_w / 2;
        s.groups = s.in_channels = s.out_channels = random_.integer(1, 150);
        random_strides(random_, s);
        check_depthwise(s, random_, pool);
      }
    });
  }
}

TEST_F(Conv, TransposedRandomShapes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        const ConvShape r = random_shape(random_);
        ConvTransposeShape s;
        s.batch = r.batch, s.in_h = r.in_h, s.in_w = r.in_w, s.groups = r.groups;
        s.in_channels = r.in_channels, s.out_channels = r.out_channels;
        s.kernel_h = r.kernel_h, s.kernel_w = r.kernel_w, s.stride_h = r.stride_h, s.stride_w = r.stride_w;
        s.dilation_h = r.dilation_h, s.dilation_w = r.dilation_w;
        s.pad_top = std::max<int64_t>(0, r.pad_top), s.pad_left = std::max<int64_t>(0, r.pad_left);
        s.pad_bottom = std::max<int64_t>(0, r.pad_bottom), s.pad_right = std::max<int64_t>(0, r.pad_right);
        s.output_padding_h = random_.integer(0, s.stride_h - 1),
        s.output_padding_w = random_.integer(0, s.stride_w - 1);
        if (random_.coin()) {  // windows that tile the width
          s.kernel_w = s.stride_w, s.dilation_w = 1, s.pad_left = s.pad_right = s.output_padding_w = 0;
          if (random_.coin()) s.groups = 1;
        }
        if (random_.integer(0, 2) == 0) {  // three axes, smaller
          s.in_h = random_.integer(1, 5), s.in_w = random_.integer(1, 5), s.in_d = random_.integer(1, 4);
          s.kernel_d = random_.integer(1, 3), s.stride_d = random_.integer(1, 3), s.dilation_d = random_.integer(1, 2);
          s.pad_front = random_.integer(0, 1), s.pad_back = random_.integer(0, 1);
          s.output_padding_d = random_.integer(0, s.stride_d - 1);
        }
        if (random_.integer(0, 3) == 0) s.in_channels = s.out_channels = s.groups = random_.integer(1, 150);
        if (s.out_d() <= 0 || s.out_h() <= 0 || s.out_w() <= 0) continue;
        if (random_.integer(0, 3) == 0) s.in_pixel_stride = s.in_channels + 3;
        if (random_.integer(0, 3) == 0) s.out_pixel_stride = s.out_channels + 2;
        SCOPED_TRACE(testing::Message() << "transposed " << describe(r) << " depth " << s.in_d << " channels "
                                        << s.in_channels << " groups " << s.groups << " output padding "
                                        << s.output_padding_h << "," << s.output_padding_w << " threads " << threads);
        const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
        const std::vector<float> input = random_.vector(s.batch * s.in_d * s.in_h * s.in_w * step);
        const int64_t points = s.kernel_d * s.kernel_h * s.kernel_w;
        const std::vector<float> weights = random_.vector(s.in_channels * (s.out_channels / s.groups) * points);
        const bool joined = can_join_phases(s) && random_.coin();
        SCOPED_TRACE(joined ? "joined phases" : "separate phases");
        const ConvTransposeWeights w = conv_transpose_weights(s, joined);
        std::vector<float> packed(at(w.floats())), back(weights.size());
        pack_conv_transpose_weights(w, weights.data(), packed.data());
        unpack_conv_transpose_weights(w, packed.data(), back.data());
        ASSERT_EQ(weights, back);
        std::vector<float> scratch(2 * weights.size()), in_a_run(at(w.floats()));
        pack_conv_transpose_weights(w, weights.data(), in_a_run.data(), scratch.data(), pool);
        ASSERT_EQ(packed, in_a_run);
        const ConvTransposePlan plan(s, joined);
        if (!can_join_phases(s)) {
          EXPECT_THROW(ConvTransposePlan(s, true), Error);
        }
        Workspace workspace(plan.workspace_bytes(threads));
        check(random_, reference_transpose(s, input, weights), s.out_channels,
              s.out_pixel_stride ? s.out_pixel_stride : s.out_channels, s.in_channels * points,
              [&](float* output, const Epilogue& e) {
                conv_transpose(plan, input.data(), packed.data(), output, e, pool, workspace.get());
              });
      }
    });
  }
}

}  // namespace
}  // namespace camshaft::cpu::conv_test
