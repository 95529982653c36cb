// Convolutions by columns, transposed ones too, against plain loops in double precision.
#include "backends/cpu/kernels/conv/conv_columns.h"

#include "backends/cpu/conv_chain_test.h"
#include "backends/cpu/conv_test_util.h"
#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/conv/conv_transpose_columns.h"
#include "backends/cpu/kernels/conv/kn2row.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/contract.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::conv_columns_test {
namespace {

ConvShape random_columns(RandomData& random) {
  ConvShape s = random_shape(random);
  if (random.coin()) s.in_w = random.integer(1, 200);
  if (random.integer(0, 9) == 0) s.in_h = random.integer(1, 3), s.in_w = random.integer(600, 1500);
  if (random.integer(0, 3) == 0) s.in_h = s.in_w = random.integer(1, 3), s.batch = random.integer(1, 9);
  if (random.coin()) s.kernel_w = random.integer(1, 7), s.stride_w = random.integer(1, 6);
  if (random.coin()) {
    s.in_d = random.integer(1, 6), s.kernel_d = random.integer(1, 3);
    s.stride_d = random.integer(1, 3), s.dilation_d = random.integer(1, 2);
    s.pad_front = random.integer(-1, 2), s.pad_back = random.integer(-1, 2);
  }
  if (random.integer(0, 3) == 0) s.groups = s.in_channels, s.out_channels = s.groups * random.integer(1, 3);
  if (random.integer(0, 3) == 0) {  // of the image as one row
    s.kernel_d = s.kernel_h = s.kernel_w = s.stride_d = s.stride_h = s.stride_w = 1;
    s.pad_front = s.pad_top = s.pad_left = s.pad_back = s.pad_bottom = s.pad_right = 0;
    if (random.coin()) s.in_h = 16, s.in_w = 16 * random.integer(1, 3);  // whose channels share sets of L1
  }
  return s;
}

ConvTransposeShape random_transpose(RandomData& random) {
  ConvTransposeShape s;
  s.batch = random.integer(1, 3);
  s.in_h = random.integer(1, 9), s.in_w = random.integer(1, random.coin() ? 12 : 200);
  if (random.integer(0, 9) == 0) s.in_h = 1, s.in_w = random.integer(2000, 5000);
  s.kernel_h = random.integer(1, 5), s.kernel_w = random.integer(1, 7);
  s.stride_h = random.integer(1, 3), s.stride_w = random.integer(1, 5);
  s.dilation_h = random.coin() ? 1 : random.integer(1, 3), s.dilation_w = random.coin() ? 1 : random.integer(1, 4);
  if (random.coin()) {
    s.pad_top = random.integer(-1, 3), s.pad_left = random.integer(-1, 4);
    s.pad_bottom = random.integer(-1, 3), s.pad_right = random.integer(-1, 4);
  }
  s.output_padding_h = random.integer(0, s.stride_h - 1), s.output_padding_w = random.integer(0, s.stride_w - 1);
  if (random.coin() && s.in_w < 300) {
    s.in_d = random.integer(1, 5), s.kernel_d = random.integer(1, 3);
    s.stride_d = random.integer(1, 3), s.dilation_d = random.integer(1, 2);
    s.pad_front = random.integer(-1, 2), s.pad_back = random.integer(-1, 2);
    s.output_padding_d = random.integer(0, s.stride_d - 1);
  }
  s.groups = random.coin() ? 1 : random.integer(1, 4);
  s.in_channels = s.groups * random.integer(1, random.coin() ? 5 : 40 / s.groups);
  s.out_channels = s.groups * random.integer(1, random.coin() ? 5 : 24);
  return s;
}

TEST_F(Conv, ByColumns) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 80; ++i) {
        const ConvShape s = random_columns(random_);
        if (s.out_d() <= 0 || s.out_h() <= 0 || s.out_w() <= 0 || !ColumnConvPlan::fits(s)) continue;
        SCOPED_TRACE(describe(s) + " threads " + std::to_string(threads));
        const int64_t in_pixels = s.in_d * s.in_h * s.in_w, out_pixels = s.out_d() * s.out_h() * s.out_w();
        const std::vector<float> input = random_input(random_, s.batch * in_pixels * s.in_channels);
        const int64_t terms = s.in_channels / s.groups * s.kernel_d * s.kernel_h * s.kernel_w;
        const std::vector<float> weights = random_.vector(s.out_channels * terms);
        const ColumnConvPlan plan(s);
        Workspace workspace(plan.workspace_bytes(threads));
        check_channels_first(random_, to_first(input, s.batch, in_pixels, s.in_channels),
                             to_first(reference_conv(s, input, weights), s.batch, out_pixels, s.out_channels),
                             s.out_channels, out_pixels, terms, [&](const float* x, float* y, const Epilogue& e) {
                               column_conv(plan, x, weights.data(), y, e, pool, workspace.get());
                             });
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(Conv, TransposedByColumns) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        const ConvTransposeShape s = random_transpose(random_);
        if (s.out_d() <= 0 || s.out_h() <= 0 || s.out_w() <= 0) continue;
        SCOPED_TRACE(testing::Message() << s.in_d << "x" << s.in_h << "x" << s.in_w << "x" << s.in_channels << " to "
                                        << s.out_channels << " kernel " << s.kernel_d << "," << s.kernel_h << ","
                                        << s.kernel_w << " stride " << s.stride_d << "," << s.stride_h << ","
                                        << s.stride_w << " dilation " << s.dilation_d << "," << s.dilation_h << ","
                                        << s.dilation_w << " pads " << s.pad_front << "," << s.pad_top << ","
                                        << s.pad_left << "," << s.pad_back << "," << s.pad_bottom << "," << s.pad_right
                                        << " output padding " << s.output_padding_d << "," << s.output_padding_h << ","
                                        << s.output_padding_w << " groups " << s.groups << " threads " << threads);
        const int64_t in_pixels = s.in_d * s.in_h * s.in_w, out_pixels = s.out_d() * s.out_h() * s.out_w();
        const std::vector<float> input = random_input(random_, s.batch * in_pixels * s.in_channels);
        const int64_t points = s.kernel_d * s.kernel_h * s.kernel_w;
        const std::vector<float> weights = random_.vector(s.in_channels * (s.out_channels / s.groups) * points);
        const ColumnTransposePlan plan(s);
        Workspace workspace(plan.workspace_bytes(threads));
        check_channels_first(random_, to_first(input, s.batch, in_pixels, s.in_channels),
                             to_first(reference_transpose(s, input, weights), s.batch, out_pixels, s.out_channels),
                             s.out_channels, out_pixels, s.in_channels / s.groups * points,
                             [&](const float* x, float* y, const Epilogue& e) {
                               column_conv_transpose(plan, x, weights.data(), y, e, pool, workspace.get());
                             });
        if (HasFatalFailure()) return;
      }
    });
  }
}

// Steps of one pixel; now and then long lines of an image of one column, pads beyond the kernel, many input channels.
ConvShape random_kn2row(RandomData& random) {
  ConvShape s = random_columns(random);
  s.stride_d = s.stride_h = s.stride_w = 1;
  if (random.integer(0, 3) == 0) s.in_w = s.kernel_w = 1, s.pad_left = s.pad_right = 0, s.in_h = random.integer(1, 90);
  if (random.coin()) s.pad_left = random.integer(-1, 9), s.pad_bottom = random.integer(-1, 9);
  if (random.integer(0, 9) == 0) s.in_w = random.integer(2000, 5000), s.in_h = s.in_d = 1, s.dilation_w = 40;
  if (random.integer(0, 3) == 0) s.groups = 1, s.in_channels = 300, s.out_channels = random.integer(1, 3);
  if (random.integer(0, 9) == 0) {  // a small image by many taps
    s.in_d = random.integer(1, 3), s.in_h = random.integer(1, 4), s.in_w = random.integer(1, 4);
    s.kernel_d = 2 * s.in_d + 1, s.kernel_h = 2 * s.in_h + 1, s.kernel_w = 2 * s.in_w + 1;
    s.dilation_d = s.dilation_h = s.dilation_w = 1, s.groups = 1, s.in_channels = random.integer(1, 20);
    s.out_channels = random.integer(1, 40);
    s.pad_front = s.pad_back = s.in_d, s.pad_top = s.pad_bottom = s.in_h, s.pad_left = s.pad_right = s.in_w;
  }
  return s;
}

TEST_F(Conv, ByKn2row) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        const ConvShape s = random_kn2row(random_);
        if (s.out_d() <= 0 || s.out_h() <= 0 || s.out_w() <= 0) continue;
        SCOPED_TRACE(describe(s) + " threads " + std::to_string(threads));
        const int64_t in_pixels = s.in_d * s.in_h * s.in_w, out_pixels = s.out_d() * s.out_h() * s.out_w();
        const std::vector<float> input = random_input(random_, s.batch * in_pixels * s.in_channels);
        const Kn2rowWeights w{s.out_channels, s.in_channels / s.groups, s.groups, s.kernel_d * s.kernel_h * s.kernel_w};
        const std::vector<float> weights = random_.vector(w.floats());
        std::vector<float> packed(weights.size()), back(weights.size());
        pack_kn2row_weights(w, weights.data(), packed.data());
        unpack_kn2row_weights(w, packed.data(), back.data());
        ASSERT_EQ(back, weights);
        const ColumnTransposePlan plan(kn2row_shape(s));
        Workspace workspace(plan.workspace_bytes(threads));
        check_channels_first(random_, to_first(input, s.batch, in_pixels, s.in_channels),
                             to_first(reference_conv(s, input, weights), s.batch, out_pixels, s.out_channels),
                             s.out_channels, out_pixels, w.group_channels * w.taps,
                             [&](const float* x, float* y, const Epilogue& e) {
                               column_conv_transpose(plan, x, packed.data(), y, e, pool, workspace.get());
                             });
        if (HasFatalFailure()) return;
      }
    });
  }
}

TEST_F(Conv, ByColumnsRefusesWhatItCannot) {
  ConvShape s;
  s.in_h = s.in_w = 4, s.in_channels = s.out_channels = 2, s.groups = 3;
  EXPECT_THROW(ColumnConvPlan{s}, Error);
  s.groups = 1, s.stride_w = 0;
  EXPECT_THROW(ColumnConvPlan{s}, Error);
  s.stride_w = 1, s.kernel_d = s.kernel_h = s.kernel_w = int64_t{1} << 30;
  EXPECT_FALSE(ColumnConvPlan::fits(s));
  EXPECT_THROW(ColumnConvPlan{s}, Error);
  ConvTransposeShape t;
  t.in_h = t.in_w = 4, t.in_channels = t.out_channels = 2, t.groups = 3;
  EXPECT_THROW(ColumnTransposePlan{t}, Error);
  t.groups = 1, t.dilation_h = 0;
  EXPECT_THROW(ColumnTransposePlan{t}, Error);
  ConvShape steps;
  steps.in_h = steps.in_w = 4, steps.in_channels = 4, steps.out_channels = 1, steps.kernel_h = steps.stride_h = 2;
  EXPECT_THROW(kn2row_shape(steps), Error);
}

// Volumes of any size take no more memory a thread than an L2 has: planes of a million pixels took 16 MB.
TEST_F(Conv, TransposedByColumnsKeepsItsMemoryBounded) {
  ConvTransposeShape s;
  s.in_channels = 64, s.out_channels = 16, s.in_d = 4, s.in_h = s.in_w = 1000;
  s.kernel_d = s.kernel_h = s.kernel_w = 3;
  for (const int64_t stride : {1, 2, 3}) {
    s.stride_d = s.stride_h = s.stride_w = stride;
    EXPECT_LE(ColumnTransposePlan(s).workspace_bytes(1), 2 << 20) << "stride " << stride;
  }
}

// Small images by kernels of many taps: the products of all outputs by all taps took 32 MB a thread, and 4 MB of one
// pixel.
TEST_F(Conv, TransposedByColumnsKeepsItsMemoryBoundedForSmallImages) {
  ConvShape s;
  s.in_d = s.in_h = s.in_w = s.kernel_d = s.kernel_h = s.kernel_w = 7;
  s.pad_front = s.pad_back = s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 3;
  s.in_channels = 512, s.out_channels = 384;
  EXPECT_LE(ColumnTransposePlan(kn2row_shape(s)).workspace_bytes(1), 1 << 20);
  s.pad_front = s.pad_back = s.pad_top = s.pad_bottom = s.pad_left = s.pad_right = 0;
  EXPECT_LE(ColumnTransposePlan(kn2row_shape(s)).workspace_bytes(1), 1 << 20);
  for (const int64_t kernel : {4, 40, 200}) {
    ConvTransposeShape t;
    t.in_h = t.in_w = 1, t.kernel_h = t.kernel_w = kernel, t.in_channels = 100, t.out_channels = 1024;
    EXPECT_LE(ColumnTransposePlan(t).workspace_bytes(1), 2 << 20) << kernel;
    t.in_d = 2, t.in_h = t.in_w = 9, t.kernel_d = 5;
    EXPECT_LE(ColumnTransposePlan(t).workspace_bytes(1), 2 << 20) << kernel;
  }
}

// How the blocks are handed out does not change a bit.
TEST_F(Conv, ByColumnsIsTheSameOnAnyNumberOfThreads) {
  ConvShape s;
  s.batch = 3, s.in_d = 5, s.in_h = 13, s.in_w = 31, s.in_channels = 12, s.out_channels = 140, s.groups = 2;
  s.kernel_d = s.kernel_h = s.kernel_w = 3, s.pad_top = s.pad_left = s.pad_bottom = s.pad_right = 1;
  ConvTransposeShape t;
  t.batch = 2, t.in_d = 4, t.in_h = 9, t.in_w = 21, t.in_channels = 12, t.out_channels = 20, t.groups = 2;
  t.kernel_d = t.kernel_h = t.kernel_w = 3, t.stride_h = t.stride_w = 2, t.pad_left = 1;
  const std::vector<float> input = random_.vector(s.batch * s.in_d * s.in_h * s.in_w * s.in_channels);
  const std::vector<float> weights = random_.vector(s.out_channels * 6 * 27);
  ConvShape k = s;
  k.groups = 1, k.out_channels = 3, k.in_h = 150;
  const std::vector<float> high = random_.vector(k.batch * k.in_d * k.in_h * k.in_w * k.in_channels);
  std::vector<float> one, transposed_by_one, kn2row_by_one;
  for (const int threads : {1, 2, 5, 11}) {
    ThreadPool pool(threads);
    const ColumnConvPlan plan(s);
    const ColumnTransposePlan transposed(t);
    const ColumnTransposePlan kn2row(kn2row_shape(k));
    Workspace workspace(std::max(
        {plan.workspace_bytes(threads), transposed.workspace_bytes(threads), kn2row.workspace_bytes(threads)}));
    std::vector<float> output(at(s.batch * s.out_d() * s.out_h() * s.out_w() * s.out_channels));
    std::vector<float> second(at(t.batch * t.out_d() * t.out_h() * t.out_w() * t.out_channels));
    column_conv(plan, input.data(), weights.data(), output.data(), {}, pool, workspace.get());
    column_conv_transpose(transposed, input.data(), weights.data(), second.data(), {}, pool, workspace.get());
    std::vector<float> third(at(k.batch * k.out_d() * k.out_h() * k.out_w() * k.out_channels));
    column_conv_transpose(kn2row, high.data(), weights.data(), third.data(), {}, pool, workspace.get());
    if (threads == 1) one = output, transposed_by_one = second, kn2row_by_one = third;
    ASSERT_EQ(third, kn2row_by_one) << threads << " threads";
    ASSERT_EQ(output, one) << threads << " threads";
    ASSERT_EQ(second, transposed_by_one) << threads << " threads";
  }
}

// As the tactics run them: between a transpose from channels first and one back, over one axis to three. An image or a
// result of one channel, or of one pixel, needs none. Operands end where readable memory ends.
NodeTest random_chain(Random& random, int round, const std::string& tactic) {
  const bool transposed = tactic == "conv_transpose_columns", kn2row = tactic == "conv_kn2row";
  const bool one_in = round % 7 == 1, one_out = round % 7 == 2, one_pixel = round % 7 == 3;
  const int64_t groups = one_in || one_out ? 1 : random.integer(1, round % 4 == 0 ? 20 : 3);
  const int64_t most = kn2row ? 3 : 9;  // outputs, of fewer than inputs
  const int64_t channels = one_in ? 1 : groups * random.integer(kn2row ? most + 1 : 1, 6);
  const int64_t outputs = one_out ? 1 : random.integer(1, most);
  const int64_t batch = round % 15 ? random.integer(1, 3) : 0;
  const auto axes = static_cast<size_t>(1 + round % 3);
  Dims strides, dilations, x{batch};
  Dims w = transposed ? Dims{channels, outputs} : Dims{groups * outputs, channels / groups};
  const bool turn_in = !one_in && !one_pixel;
  if (turn_in) x.push_back(channels);
  for (size_t a = 0; a < axes; ++a) {
    strides.push_back(kn2row ? 1 : random.integer(1, 3));
    dilations.push_back(random.integer(1, 2));
    w.push_back(one_pixel && !transposed ? 1 : random.integer(kn2row ? 2 : 1, 4));
    x.push_back(one_pixel ? 1 : random.integer(8, axes == 3 ? 14 : 40));
  }
  if (!turn_in) x.push_back(channels);
  Shape pads;
  for (size_t i = 0; i < 2 * axes; ++i) pads.emplace_back(one_pixel ? 0 : random.integer(0, 1));
  Op op = ops::Conv{strides, pads, dilations, groups, true};
  if (transposed) {
    ops::ConvTranspose c;
    c.strides = strides, c.pads = pads, c.dilations = dilations, c.groups = groups, c.channels_last = true;
    c.output_padding.assign(axes, Dim(0));
    op = c;
  }
  std::vector<Tensor> operands{random_tensor(random, DType::f32, x), random_tensor(random, DType::f32, w)};
  if (random.integer(0, 1)) operands.push_back(random_tensor(random, DType::f32, {groups * outputs}));
  if (round % 5 == 0 && batch > 0)
    operands[0].as_mutable<float>()[operands[0].size() / 2] = std::numeric_limits<float>::quiet_NaN();

  return chain_test(random, op, operands, turn_in, !one_out, random.integer(0, 1) == 1, tactic);
}

TEST_F(Conv, ByColumnsAsAChain) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 126; ++round) {
      const char* tactic = round % 2 == 1 ? "conv_transpose_columns" : "conv_columns";
      random_chain(random, round, tactic).check(static_cast<int>(random.integer(1, 3)));
      if (HasFatalFailure()) return;
    }
  });
}

TEST_F(Conv, ByKn2rowAsAChain) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      if (round % 7 == 1 || round % 7 == 3) continue;  // one input channel, or one pixel, is not for it
      const NodeTest test = random_chain(random, round, "conv_kn2row");
      test.check(static_cast<int>(random.integer(1, 3)));
      if (!test.constants.empty()) check_unpacking(test);
      if (HasFatalFailure()) return;
    }
  });
}

// Products of rounded pairs take half the time of those of f32, by kn2row as by columns.
TEST_F(Conv, ByColumnsOfWhatMayBeRoundedIsThoughtSlower) {
  if (!has_bf16_products()) GTEST_SKIP() << "no products of bf16 pairs";
  for (const char* tactic : {"conv_columns", "conv_kn2row"}) {
    const auto estimated = [&](ops::Rounding rounding) {
      Random random(1);
      ops::Conv op{{1, 1}, {1, 1, 1, 1}, {1, 1}, 1, true};
      op.rounding = rounding;
      const NodeTest test =
          chain_test(random, op, {Tensor(DType::f32, {1, 200, 60, 60}), Tensor(DType::f32, {100, 200, 3, 3})}, true,
                     true, false, tactic);
      const Graph graph = test.graph_of_node();
      const SymbolBindings symbols;
      for (const Tactic& offered : backend()->tactics({graph, graph.nodes.back(), symbols}))
        if (offered.name == tactic) return offered.estimated_seconds;
      return 0.0;
    };
    EXPECT_GT(estimated(ops::Rounding::bf16), 1.5 * estimated(ops::Rounding::none)) << tactic;
  }
}

// An axis of 0 hides how long the others are from all that is checked by a product.
TEST_F(Conv, WeightsOfNothingAreUnpackedAtOnce) {
  constexpr int64_t huge = int64_t{1} << 55;
  const std::string n = std::to_string(huge);
  struct Hostile {
    std::string layout;
    Dims dims;
  };
  const Hostile all[] = {{"conv_kn2row o=" + n + " c=0 groups=1 taps=3", {huge, 0, 3}},
                         {"conv_planes o=" + n + " c=0 groups=1 h=1 w=3", {huge, 0, 3}},
                         {"depthwise_blocks c=" + n + " m=1 h=0 w=1", {huge, 1, 0, 1}}};
  for (const auto& [layout, dims] : all) {
    const Tensor raw = backend()->unpack({"w", layout, {}, nullptr}, DType::f32, dims);
    EXPECT_EQ(raw.dims(), dims) << layout;
    const std::byte some[4] = {};
    EXPECT_THROW(backend()->unpack({"w", layout, some, nullptr}, DType::f32, dims), Error) << layout;
  }
}

// One channel that becomes one needs no chain.
TEST_F(Conv, ByColumnsOfOneChannel) {
  Random random = test_random();
  for (const char* tactic : {"conv_columns", "conv_planes"}) {
    ops::Conv op{{2, 1}, {1, 1, 0, 1}, {1, 2}, 1, true};
    NodeTest{op,
             {random_tensor(random, DType::f32, {2, 9, 70, 1}), random_tensor(random, DType::f32, {1, 1, 3, 3})},
             {1},
             tactic,
             1e-5}
        .check(2);
  }
  ops::ConvTranspose op;
  op.strides = {2, 2}, op.dilations = {1, 1}, op.pads.assign(4, Dim(0)), op.output_padding.assign(2, Dim(0));
  op.channels_last = true;
  NodeTest{op,
           {random_tensor(random, DType::f32, {2, 9, 70, 1}), random_tensor(random, DType::f32, {1, 1, 3, 3})},
           {1},
           "conv_transpose_columns",
           1e-5}
      .check(2);
}

// Nothing to compute, and nothing to read.
TEST_F(Conv, ByColumnsOfNothing) {
  ThreadPool pool(2);
  ConvShape s;
  s.batch = 0, s.in_h = s.in_w = 4, s.in_channels = 3, s.out_channels = 2, s.kernel_h = s.kernel_w = 2;
  column_conv(ColumnConvPlan(s), nullptr, nullptr, nullptr, {}, pool, nullptr);
  s.batch = 1, s.kernel_h = 7;
  column_conv(ColumnConvPlan(s), nullptr, nullptr, nullptr, {}, pool, nullptr);
  ConvTransposeShape t;
  t.batch = 0, t.in_h = t.in_w = 4, t.in_channels = 3, t.out_channels = 2;
  column_conv_transpose(ColumnTransposePlan(t), nullptr, nullptr, nullptr, {}, pool, nullptr);
  t.batch = 1, t.pad_top = 7;
  column_conv_transpose(ColumnTransposePlan(t), nullptr, nullptr, nullptr, {}, pool, nullptr);
}

}  // namespace
}  // namespace camshaft::cpu::conv_columns_test
