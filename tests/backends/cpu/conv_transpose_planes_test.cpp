// Transposed convolutions on planes against plain loops in double precision.
#include "backends/cpu/kernels/conv/conv_transpose_planes.h"

#include "backends/cpu/conv_chain_test.h"
#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/contract.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::conv_transpose_planes_test {
namespace {

ConvTransposeShape random_transpose(RandomData& random) {
  ConvTransposeShape s;
  s.batch = random.integer(1, 3);
  s.in_h = random.integer(1, 9), s.in_w = random.integer(1, random.coin() ? 12 : 200);
  if (random.integer(0, 9) == 0) s.in_h = 1, s.in_w = random.integer(600, 1500);
  s.kernel_h = random.integer(1, 5), s.kernel_w = random.integer(1, 7);
  s.stride_h = random.integer(1, 3), s.stride_w = random.integer(1, 5);
  s.dilation_h = random.coin() ? 1 : random.integer(1, 3), s.dilation_w = random.coin() ? 1 : random.integer(1, 4);
  if (random.coin()) {
    s.pad_top = random.integer(-1, 3), s.pad_left = random.integer(-1, 4);
    s.pad_bottom = random.integer(-1, 3), s.pad_right = random.integer(-1, 4);
  }
  s.output_padding_h = random.integer(0, s.stride_h - 1), s.output_padding_w = random.integer(0, s.stride_w - 1);
  if (random.integer(0, 3) == 0) {  // windows that neither overlap nor leave gaps
    s.kernel_h = s.stride_h, s.kernel_w = s.stride_w, s.dilation_h = s.dilation_w = 1;
    s.output_padding_h = s.output_padding_w = 0;
    if (random.coin()) s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 0;
  }
  s.groups = random.coin() ? 1 : random.integer(1, 4);
  s.in_channels = s.groups * random.integer(1, random.coin() ? 5 : 40 / s.groups);
  s.out_channels = s.groups * random.integer(1, random.coin() ? 5 : 16);
  return s;
}

TEST_F(Conv, TransposedOnPlanes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        ConvTransposeShape s = random_transpose(random_);
        if (s.out_h() <= 0 || s.out_w() <= 0) continue;
        const bool first_in = random_.coin(), first_out = random_.coin();
        if (!first_in && random_.integer(0, 3) == 0) s.in_pixel_stride = s.in_channels + 3;
        if (!first_out && random_.integer(0, 3) == 0) s.out_pixel_stride = s.out_channels + 2;
        SCOPED_TRACE(testing::Message() << s.in_h << "x" << s.in_w << "x" << s.in_channels << " to " << s.out_channels
                                        << " kernel " << s.kernel_h << "," << s.kernel_w << " stride " << s.stride_h
                                        << "," << s.stride_w << " dilation " << s.dilation_h << "," << s.dilation_w
                                        << " pads " << s.pad_top << "," << s.pad_left << "," << s.pad_bottom << ","
                                        << s.pad_right << " output padding " << s.output_padding_h << ","
                                        << s.output_padding_w << " groups " << s.groups << " first " << first_in
                                        << first_out << " threads " << threads);
        const int64_t step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels, in_pixels = s.in_h * s.in_w;
        std::vector<float> input = random_.vector(s.batch * in_pixels * step);
        const int64_t points = s.kernel_h * s.kernel_w;
        const std::vector<float> weights = random_.vector(s.in_channels * (s.out_channels / s.groups) * points);
        if (random_.integer(0, 9) == 0) input[at(random_.integer(0, std::ssize(input) - 1))] = kInfinity;
        const PlaneTransposeWeights w{s.in_channels, s.out_channels / s.groups,
                                      s.groups,      s.kernel_h,
                                      s.kernel_w,    s.stride_h,
                                      s.stride_w,    s.dilation_h,
                                      s.dilation_w};
        std::vector<float> packed(at(w.floats())), back(weights.size());
        pack_plane_transpose_weights(w, weights.data(), packed.data());
        unpack_plane_transpose_weights(w, packed.data(), back.data());
        ASSERT_EQ(weights, back);

        const std::vector<Sum> sums = reference_transpose(s, input, weights);
        const std::vector<float> bias = random_.vector(s.out_channels);
        const Activation activation = random_activation(random_);
        Epilogue e;
        if (random_.coin()) e.bias = bias.data();
        if (random_.coin()) e.lo = 0.0f;
        if (random_.coin()) e.hi = 1.0f;
        if (random_.coin()) e.activation = &activation;
        const PlaneTransposePlan plan(s, first_in, first_out);
        Workspace workspace(plan.workspace_bytes(threads));
        const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
        const int64_t out_pixels = s.out_h() * s.out_w();
        const std::vector<float> given = first_in ? to_first(input, s.batch, in_pixels, s.in_channels) : input;
        std::vector<float> output(at(s.batch * out_pixels * out_step), kGuard);
        plane_conv_transpose(plan, given.data(), packed.data(), output.data(), e, pool, workspace.get());
        const std::vector<Sum> expected = first_out ? to_first(sums, s.batch, out_pixels, s.out_channels) : sums;
        for (int64_t p = 0; p < s.batch * out_pixels; ++p)
          for (int64_t c = 0; c < out_step; ++c) {
            const float actual = output[at(p * out_step + c)];
            if (c >= s.out_channels) {
              ASSERT_EQ(actual, kGuard) << "gap written";
              continue;
            }
            const Sum& sum = expected[at(p * s.out_channels + c)];
            const int64_t flat = p * s.out_channels + c;
            const int64_t channel = first_out ? flat / out_pixels % s.out_channels : c;
            double value = sum.value + (e.bias ? bias[at(channel)] : 0), scale = sum.scale;
            if (!std::isnan(value)) value = std::clamp<double>(value, e.lo, e.hi);
            if (e.activation) {
              value = activation_reference(activation, value);
              scale = std::isnan(scale) ? 10 : 10 * (1 + scale) * (1 + scale);
            }
            ASSERT_TRUE(close_enough(actual, value, scale, s.in_channels * points))
                << "pixel " << p << " channel " << c << ": " << actual << " for " << value;
          }
      }
    });
  }
}

TEST_F(Conv, TransposedOnPlanesRefusesWhatItCannot) {
  ConvTransposeShape s;
  s.in_h = s.in_w = 4, s.in_channels = s.out_channels = 2, s.groups = 3;
  EXPECT_THROW(PlaneTransposePlan(s, false, false), Error);
  s.groups = 1, s.kernel_w = 3, s.dilation_w = int64_t{1} << 31;
  EXPECT_FALSE(PlaneTransposePlan::fits(s));
  EXPECT_THROW(PlaneTransposePlan(s, false, false), Error);
  s.dilation_w = 1, s.in_channels = 1 << 20;
  EXPECT_FALSE(PlaneTransposePlan::fits(s));
}

// As the tactic runs it, groups and one axis among them.
TEST_F(Conv, TransposedOnPlanesAsARegion) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 30; ++round) {
      const bool one_axis = round % 3 == 0;
      const auto axes = static_cast<size_t>(one_axis ? 1 : 2);
      const int64_t groups = random.integer(1, 3), channels = groups * random.integer(1, 6);
      const int64_t outputs = random.integer(groups == 1 ? 1 : 2, 6);
      ops::ConvTranspose op;
      op.groups = groups;
      op.channels_last = true;
      op.pads.assign(2 * axes, Dim(0));
      op.output_padding.assign(axes, Dim(0));
      Dims x{random.integer(1, 2)}, w{channels, outputs};
      for (size_t a = 0; a < axes; ++a) {
        op.strides.push_back(random.integer(1, 3));
        op.dilations.push_back(random.integer(1, 2));
        w.push_back(random.integer(2, 4));
        x.push_back(random.integer(3, 40));
        op.pads[a] = Dim(random.integer(0, 1));
      }
      x.push_back(channels);
      NodeTest{op,
               {random_tensor(random, DType::f32, x), random_tensor(random, DType::f32, w)},
               round % 4 ? std::vector<size_t>{1} : std::vector<size_t>{},
               "conv_transpose_planes",
               1e-5}
          .check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Between channels first and back: a chain with one transpose or both, over one axis or two. One channel needs none.
NodeTest random_plane_chain(Random& random, int round) {
  const bool one_channel = round % 7 == 0, relu = random.integer(0, 1) == 1;
  const bool first_in = !one_channel && round % 3 != 0, first_out = one_channel || round % 3 != 1;
  const bool stands_alone = one_channel || (first_in && first_out), depthwise = !one_channel && round % 4 == 2;
  const int64_t groups = one_channel ? 1 : random.integer(1, depthwise && stands_alone ? 40 : 3);
  const int64_t channels = one_channel ? 1 : groups * (depthwise ? 1 : random.integer(1, 6));
  // Between two transposes more than fill vectors, too.
  const int64_t outputs = depthwise && stands_alone                   ? 1
                          : stands_alone && random.integer(0, 1) == 1 ? random.integer(17, 40)
                                                                      : random.integer(2, 6);
  const auto axes = static_cast<size_t>(random.integer(0, 3) ? 2 : 1);
  ops::ConvTranspose op;
  op.groups = groups;
  op.channels_last = true;
  op.output_padding.assign(axes, Dim(0));
  const int64_t batch = round % 15 ? random.integer(1, 2) : 0;
  Dims x{batch}, w{channels, outputs};
  if (first_in) x.push_back(channels);
  const bool tiles_result = random.integer(0, 2) == 0;
  for (size_t a = 0; a < axes; ++a) {
    op.strides.push_back(round % 2 ? 2 : random.integer(1, 3));
    op.dilations.push_back(tiles_result ? 1 : random.integer(1, 2));
    w.push_back(tiles_result ? op.strides.back() : random.integer(2, 4));
    x.push_back(random.integer(3, 80));
  }
  if (!first_in) x.push_back(channels);
  for (size_t i = 0; i < 2 * axes; ++i) op.pads.emplace_back(tiles_result ? 0 : random.integer(0, 1));
  std::vector<Tensor> operands{random_tensor(random, DType::f32, x), random_tensor(random, DType::f32, w)};
  if (random.integer(0, 1)) operands.push_back(random_tensor(random, DType::f32, {outputs * groups}));
  if (round % 5 == 0 && batch > 0)
    operands[0].as_mutable<float>()[operands[0].size() / 2] = std::numeric_limits<float>::quiet_NaN();

  return chain_test(random, op, operands, first_in, first_out, relu, "conv_transpose_planes");
}

TEST_F(Conv, TransposedOnPlanesAsAChain) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 84; ++round) {
      random_plane_chain(random, round).check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Nothing to compute, and nothing to read.
TEST_F(Conv, TransposedOnPlanesOfNothing) {
  ThreadPool pool(2);
  ConvTransposeShape s;
  s.batch = 0, s.in_h = s.in_w = 4, s.in_channels = 3, s.out_channels = 2, s.kernel_h = s.kernel_w = 2;
  plane_conv_transpose(PlaneTransposePlan(s, false, false), nullptr, nullptr, nullptr, {}, pool, nullptr);
  s.batch = 1, s.pad_left = 5;
  plane_conv_transpose(PlaneTransposePlan(s, false, false), nullptr, nullptr, nullptr, {}, pool, nullptr);
}

}  // namespace
}  // namespace camshaft::cpu::conv_transpose_planes_test
