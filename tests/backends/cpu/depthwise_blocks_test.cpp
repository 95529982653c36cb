// Depthwise convolutions by blocks of channels that are turned in cache, against plain loops in double precision.
#include "backends/cpu/kernels/conv/depthwise_blocks.h"

#include "backends/cpu/conv_chain_test.h"
#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/contract.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::depthwise_blocks_test {
namespace {

ConvShape random_blocks(RandomData& random) {
  ConvShape s = random_shape(random);
  s.in_channels = s.out_channels = s.groups = random.integer(1, 50);
  if (random.integer(0, 3) == 0) s.out_channels *= random.integer(2, 4);
  if (random.coin()) s.in_w = random.integer(1, 200);
  if (random.coin()) s.in_h = random.integer(1, 60);
  if (random.coin()) s.kernel_w = random.integer(1, 7), s.stride_w = random.integer(1, 5);
  if (random.coin()) s.kernel_h = random.integer(1, 7), s.stride_h = random.integer(1, 9);
  if (random.integer(0, 3) == 0) s.pad_left = random.integer(-2, 20), s.pad_bottom = random.integer(-2, 20);
  if (random.integer(0, 9) == 0) {  // mostly of padding
    s.in_h = random.integer(1, 3), s.in_w = random.integer(1, 3), s.pad_left = 3000, s.pad_right = 2500;
    s.in_channels = s.out_channels = s.groups = random.integer(1, 20), s.batch = 1;
  }
  if (random.integer(0, 9) == 0) {  // in tiles of pixels
    s.in_h = random.integer(1, 9), s.in_w = random.integer(4000, 6000);
    s.in_channels = s.out_channels = s.groups = random.integer(1, 20), s.batch = 1;
  }
  return s;
}

TEST_F(Conv, DepthwiseByBlocks) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 50; ++i) {
        const ConvShape s = random_blocks(random_);
        if (s.out_h() <= 0 || s.out_w() <= 0) continue;
        SCOPED_TRACE(describe(s) + " threads " + std::to_string(threads));
        const int64_t in_pixels = s.in_h * s.in_w, out_pixels = s.out_h() * s.out_w(), terms = s.kernel_h * s.kernel_w;
        const std::vector<float> input = random_input(random_, s.batch * in_pixels * s.in_channels);
        const std::vector<float> weights = random_.vector(s.out_channels * terms);
        const DepthwiseBlockWeights w{s.in_channels, s.out_channels / s.in_channels, s.kernel_h, s.kernel_w};
        std::vector<float> packed(at(w.floats())), back(weights.size());
        pack_depthwise_block_weights(w, weights.data(), packed.data());
        unpack_depthwise_block_weights(w, packed.data(), back.data());
        ASSERT_EQ(back, weights);
        const DepthwiseBlockPlan plan(s);
        Workspace workspace(plan.workspace_bytes(threads));
        check_channels_first(random_, to_first(input, s.batch, in_pixels, s.in_channels),
                             to_first(reference_conv(s, input, weights), s.batch, out_pixels, s.out_channels),
                             s.out_channels, out_pixels, terms, [&](const float* x, float* y, const Epilogue& e) {
                               depthwise_blocks(plan, x, packed.data(), y, e, pool, workspace.get());
                             });
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(Conv, DepthwiseByBlocksRefusesWhatItCannot) {
  ConvShape s;
  s.in_h = s.in_w = 4, s.in_channels = s.groups = 2, s.out_channels = 3;
  EXPECT_THROW(DepthwiseBlockPlan{s}, Error);
  s.out_channels = 2, s.stride_w = 0;
  EXPECT_THROW(DepthwiseBlockPlan{s}, Error);
  s.stride_w = 1, s.in_d = 2;
  EXPECT_THROW(DepthwiseBlockPlan{s}, Error);
}

// A line of a million pixels takes no more memory than one of a thousand does.
TEST_F(Conv, DepthwiseByBlocksKeepsItsMemoryBounded) {
  ConvShape s;
  s.in_channels = s.out_channels = s.groups = 64, s.in_h = 100, s.in_w = 1 << 20;
  s.kernel_h = s.kernel_w = 7, s.stride_w = 2, s.dilation_h = 3;
  EXPECT_LE(DepthwiseBlockPlan(s).workspace_bytes(1), 1 << 20);
}

// Nor does a line of one pixel between a million of padding, which took 64 MB, or a column that sees long lines.
TEST_F(Conv, DepthwiseByBlocksKeepsItsMemoryBoundedForPads) {
  ConvShape s;
  s.in_channels = s.out_channels = s.groups = 16, s.in_h = 3, s.in_w = 1, s.kernel_h = s.kernel_w = 1;
  s.pad_left = s.pad_right = 500000;
  EXPECT_LE(DepthwiseBlockPlan(s).workspace_bytes(1), 1 << 20);
  s.pad_left = s.pad_right = 0;
  s.in_h = 5000, s.in_w = s.kernel_w = 120, s.kernel_h = s.stride_h = 10;
  EXPECT_LE(DepthwiseBlockPlan(s).workspace_bytes(1), 2 << 20);
}

// Of a far dilated kernel the lines that a row sees fill no cache: 24 MB of an image of 1000 x 1000 pixels.
TEST_F(Conv, DepthwiseByBlocksIsNotForRingsBeyondACache) {
  ConvShape s;
  s.kernel_h = s.kernel_w = 7;
  EXPECT_TRUE(DepthwiseBlockPlan::fits(s));
  s.dilation_h = s.dilation_w = 100;
  EXPECT_FALSE(DepthwiseBlockPlan::fits(s));
  s.dilation_h = s.dilation_w = s.kernel_h = s.stride_w = int64_t{1} << 62;
  EXPECT_FALSE(DepthwiseBlockPlan::fits(s));
  for (const int64_t dilation : {2, 100}) {
    Random random = test_random();
    const ops::Conv op{{1, 1}, {0, 0, 0, 0}, {dilation, dilation}, 4, true};
    const NodeTest test =
        chain_test(random, op, {Tensor(DType::f32, {1, 4, 700, 700}), Tensor(DType::f32, {4, 1, 7, 7})}, true, true,
                   false, "depthwise_blocks");
    const Graph graph = test.graph_of_node();
    const SymbolBindings symbols;
    const auto tactics = backend()->tactics({graph, graph.nodes.back(), symbols});
    EXPECT_EQ(std::any_of(tactics.begin(), tactics.end(), [](const Tactic& t) { return t.name == "depthwise_blocks"; }),
              dilation == 2);
  }
}

// How the rows are handed out does not change a bit.
TEST_F(Conv, DepthwiseByBlocksIsTheSameOnAnyNumberOfThreads) {
  ConvShape s;
  s.batch = 2, s.in_h = 83, s.in_w = 61, s.in_channels = s.out_channels = s.groups = 40;
  s.kernel_h = s.kernel_w = 3, s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 1, s.stride_h = s.stride_w = 2;
  const std::vector<float> input = random_.vector(s.batch * s.in_h * s.in_w * s.in_channels);
  const std::vector<float> packed = random_.vector(DepthwiseBlockWeights{40, 1, 3, 3}.floats());
  std::vector<float> one;
  for (const int threads : {1, 2, 5, 11}) {
    ThreadPool pool(threads);
    const DepthwiseBlockPlan plan(s);
    Workspace workspace(plan.workspace_bytes(threads));
    std::vector<float> output(at(s.batch * s.out_h() * s.out_w() * s.out_channels));
    depthwise_blocks(plan, input.data(), packed.data(), output.data(), {}, pool, workspace.get());
    if (threads == 1) one = output;
    ASSERT_EQ(output, one) << threads << " threads";
  }
}

// As the tactic runs it: between a transpose from channels first and one back, over two axes or over one.
NodeTest random_chain(Random& random, int round) {
  const int64_t channels = random.integer(2, 40), batch = round % 15 ? random.integer(1, 2) : 0;
  ops::Conv op;
  op.groups = channels;
  op.channels_last = true;
  const int64_t outputs = channels * (random.integer(0, 2) ? 1 : 3);
  Dims x{batch, channels}, w{outputs, 1};
  const size_t axes = random.integer(0, 3) ? 2 : 1;
  for (size_t a = 0; a < axes; ++a) {
    op.strides.push_back(random.integer(1, 3));
    op.dilations.push_back(random.integer(1, 2));
    w.push_back(random.integer(1, 4));
    x.push_back(random.integer(8, 60));
  }
  for (size_t i = 0; i < 2 * axes; ++i) op.pads.emplace_back(random.integer(0, 1));
  std::vector<Tensor> operands{random_tensor(random, DType::f32, x), random_tensor(random, DType::f32, w)};
  if (random.integer(0, 1)) operands.push_back(random_tensor(random, DType::f32, {outputs}));
  if (round % 5 == 0 && batch > 0)
    operands[0].as_mutable<float>()[operands[0].size() / 2] = std::numeric_limits<float>::quiet_NaN();
  return chain_test(random, op, operands, true, true, random.integer(0, 1) == 1, "depthwise_blocks");
}

TEST_F(Conv, DepthwiseByBlocksAsAChain) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const NodeTest test = random_chain(random, round);
      test.check(static_cast<int>(random.integer(1, 3)));
      if (!test.constants.empty()) check_unpacking(test);
      if (HasFatalFailure()) return;
    }
  });
}

// Nothing to compute, and nothing to read.
TEST_F(Conv, DepthwiseByBlocksOfNothing) {
  ThreadPool pool(2);
  ConvShape s;
  s.batch = 0, s.in_h = s.in_w = 4, s.in_channels = s.out_channels = s.groups = 3, s.kernel_h = s.kernel_w = 2;
  depthwise_blocks(DepthwiseBlockPlan(s), nullptr, nullptr, nullptr, {}, pool, nullptr);
  s.batch = 1, s.kernel_h = 7;
  depthwise_blocks(DepthwiseBlockPlan(s), nullptr, nullptr, nullptr, {}, pool, nullptr);
}

}  // namespace
}  // namespace camshaft::cpu::depthwise_blocks_test
