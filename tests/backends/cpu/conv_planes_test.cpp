// Convolutions on planes against plain loops in double precision.
#include "backends/cpu/kernels/conv/conv_planes.h"

#include "backends/cpu/conv_chain_test.h"
#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/contract.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::conv_planes_test {
namespace {

ConvShape random_planes(RandomData& random) {
  ConvShape s = random_shape(random);
  if (random.coin()) s.in_w = random.integer(1, 200);
  if (random.integer(0, 9) == 0) s.in_h = random.integer(1, 3), s.in_w = random.integer(600, 1500);
  if (random.coin()) s.kernel_w = random.integer(1, 7), s.stride_w = random.integer(1, 5);
  if (random.integer(0, 3) == 0) s.groups = s.in_channels, s.out_channels = s.groups * random.integer(1, 3);
  if (random.integer(0, 3) == 0) {  // rows at once, of one channel each
    s.groups = s.out_channels = s.in_channels;
    s.stride_h = s.dilation_h = 1;
  }
  if (random.integer(0, 3) == 0) {  // of rows that become one
    s.groups = s.in_channels, s.out_channels = s.groups * random.integer(1, 3);
    s.in_w = random.integer(1, 40), s.in_h = random.integer(1, 90);
    s.kernel_w = s.stride_h = s.stride_w = 1, s.kernel_h = random.integer(1, 7);
    s.pad_left = s.pad_right = 0;
  }
  if (random.integer(0, 3) == 0) {  // of the image as one row
    s.kernel_h = s.kernel_w = s.stride_h = s.stride_w = 1;
    s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 0;
  }
  return s;
}

TEST_F(Conv, OnPlanes) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 80; ++i) {
        const ConvShape s = random_planes(random_);
        if (s.out_h() <= 0 || s.out_w() <= 0 || !PlaneConvPlan::fits(s)) continue;
        SCOPED_TRACE(describe(s) + " threads " + std::to_string(threads));
        const int64_t in_pixels = s.in_h * s.in_w, out_pixels = s.out_h() * s.out_w();
        const std::vector<float> input = random_input(random_, s.batch * in_pixels * s.in_channels);
        const int64_t terms = s.in_channels / s.groups * s.kernel_h * s.kernel_w;
        const std::vector<float> weights = random_.vector(s.out_channels * terms);
        const PlaneConvWeights w{s.out_channels, s.in_channels / s.groups, s.groups, s.kernel_h, s.kernel_w};
        std::vector<float> packed(at(w.floats())), back(weights.size());
        pack_plane_conv_weights(w, weights.data(), packed.data());
        unpack_plane_conv_weights(w, packed.data(), back.data());
        ASSERT_EQ(weights, back);

        const PlaneConvPlan plan(s);
        Workspace workspace(plan.workspace_bytes(threads));
        check_channels_first(random_, to_first(input, s.batch, in_pixels, s.in_channels),
                             to_first(reference_conv(s, input, weights), s.batch, out_pixels, s.out_channels),
                             s.out_channels, out_pixels, terms, [&](const float* x, float* y, const Epilogue& e) {
                               plane_conv(plan, x, packed.data(), y, e, pool, workspace.get());
                             });
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(Conv, OnPlanesRefusesWhatItCannot) {
  ConvShape s;
  s.in_h = s.in_w = 4, s.in_channels = s.out_channels = 2, s.groups = 3;
  EXPECT_THROW(PlaneConvPlan{s}, Error);
  s.groups = 1, s.kernel_w = 3, s.dilation_w = int64_t{1} << 31;
  EXPECT_FALSE(PlaneConvPlan::fits(s));
  EXPECT_THROW(PlaneConvPlan{s}, Error);
  s.dilation_w = 1, s.stride_w = int64_t{1} << 40;
  EXPECT_FALSE(PlaneConvPlan::fits(s));
  s.stride_w = 1, s.in_channels = 1 << 20;
  EXPECT_FALSE(PlaneConvPlan::fits(s));
}

// How the rows are handed out does not change a bit.
TEST_F(Conv, OnPlanesIsTheSameOnAnyNumberOfThreads) {
  ConvShape s;
  s.batch = 2, s.in_h = 23, s.in_w = 61, s.in_channels = 12, s.out_channels = 20, s.groups = 2;
  s.kernel_h = s.kernel_w = 3, s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 1;
  const std::vector<float> input = random_.vector(s.batch * s.in_h * s.in_w * s.in_channels);
  const std::vector<float> packed = random_.vector(s.out_channels * 6 * 9);
  std::vector<float> one;
  for (const int threads : {1, 2, 5, 11}) {
    ThreadPool pool(threads);
    const PlaneConvPlan plan(s);
    Workspace workspace(plan.workspace_bytes(threads));
    std::vector<float> output(at(s.batch * s.out_h() * s.out_w() * s.out_channels));
    plane_conv(plan, input.data(), packed.data(), output.data(), {}, pool, workspace.get());
    if (threads == 1) one = output;
    ASSERT_EQ(output, one) << threads << " threads";
  }
}

// As the tactic runs it: between a transpose from channels first and one back, over two axes or over one. An image or a
// result of one channel needs none.
NodeTest random_chain(Random& random, int round) {
  const bool one_in = round % 7 == 1, one_out = round % 7 == 2;
  const int64_t groups = one_in || one_out ? 1 : round % 4 == 0 ? random.integer(1, 30) : random.integer(1, 3);
  const int64_t channels = one_in ? 1 : groups * random.integer(1, round % 4 == 0 ? 1 : 6);
  const int64_t outputs = one_out ? 1 : groups * random.integer(1, 6);
  const int64_t batch = round % 15 ? random.integer(1, 2) : 0;
  ops::Conv op;
  op.groups = groups;
  op.channels_last = true;
  Dims x{batch}, w{outputs, channels / groups};
  if (!one_in) x.push_back(channels);
  const size_t axes = random.integer(0, 3) ? 2 : 1;
  for (size_t a = 0; a < axes; ++a) {
    op.strides.push_back(random.integer(1, 3));
    op.dilations.push_back(random.integer(1, 2));
    w.push_back(round % 3 == 0 ? 1 : random.integer(1, 4));
    x.push_back(random.integer(8, 80));
  }
  if (one_in) x.push_back(channels);
  for (size_t i = 0; i < 2 * axes; ++i) op.pads.emplace_back(round % 3 == 0 ? 0 : random.integer(0, 1));
  std::vector<Tensor> operands{random_tensor(random, DType::f32, x), random_tensor(random, DType::f32, w)};
  if (random.integer(0, 1)) operands.push_back(random_tensor(random, DType::f32, {outputs}));
  if (round % 5 == 0 && batch > 0)
    operands[0].as_mutable<float>()[operands[0].size() / 2] = std::numeric_limits<float>::quiet_NaN();

  return chain_test(random, op, operands, !one_in, !one_out, random.integer(0, 1) == 1, "conv_planes");
}

TEST_F(Conv, OnPlanesAsAChain) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 84; ++round) {
      random_chain(random, round).check(static_cast<int>(random.integer(1, 3)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Nothing to compute, and nothing to read.
TEST_F(Conv, OnPlanesOfNothing) {
  ThreadPool pool(2);
  ConvShape s;
  s.batch = 0, s.in_h = s.in_w = 4, s.in_channels = 3, s.out_channels = 2, s.kernel_h = s.kernel_w = 2;
  plane_conv(PlaneConvPlan(s), nullptr, nullptr, nullptr, {}, pool, nullptr);
  s.batch = 1, s.kernel_h = 7;
  plane_conv(PlaneConvPlan(s), nullptr, nullptr, nullptr, {}, pool, nullptr);
}

}  // namespace
}  // namespace camshaft::cpu::conv_planes_test
