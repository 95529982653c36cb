// Chains of convolutions by bands, against the reference evaluation and against the parts one by one.
#include "backends/cpu/kernels/conv/conv_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/conv/depthwise.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "base/thread_pool.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::conv_chain_test {
namespace {

using F = ScalarFunction;
constexpr float infinity = std::numeric_limits<float>::infinity();

enum class Behind : uint8_t { nothing, relu, relu6, silu, hard_swish };

struct Case {
  int64_t batch = 1, h = 8, w = 8, x = 5, wide = 9, y = 7;
  int64_t kernel_h = 3, kernel_w = 3, stride_h = 1, stride_w = 1, dilation = 1;
  int64_t pads[4] = {1, 1, 1, 1};
  bool expands = true, projects = true, biases = true, adds = false, adds_x = false;
  Behind behind = Behind::relu6;
  float special = 0;  // put somewhere into x, unless 0

  int64_t out_h() const { return (h + pads[0] + pads[2] - (kernel_h - 1) * dilation - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + pads[1] + pads[3] - (kernel_w - 1) * dilation - 1) / stride_w + 1; }
};

std::string describe(const Case& c) {
  return fmt::format(
      "[{},{},{},{}] wide {} y {} kernel {}x{} stride {},{} dilation {} pads {},{},{},{} expands {} projects {} biases "
      "{} "
      "adds {} x {} behind {}",
      c.batch, c.h, c.w, c.x, c.wide, c.y, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.dilation, c.pads[0],
      c.pads[1], c.pads[2], c.pads[3], c.expands, c.projects, c.biases, c.adds, c.adds_x, static_cast<int>(c.behind));
}

ValueId append(Graph& g, ValueId x, Behind behind) {
  const auto number = [&](double value) { return g.add_constant("k", Tensor::scalar(DType::f32, value)); };
  const auto apply = [&](F f, std::vector<ValueId> inputs) { return g.add(ops::Pointwise{f}, std::move(inputs), "p"); };
  switch (behind) {
    case Behind::nothing:
      return x;
    case Behind::relu:
      return apply(F::max, {x, number(0)});
    case Behind::relu6:
      return apply(F::min, {apply(F::max, {x, number(0)}), number(6)});
    case Behind::silu:
      return apply(F::mul, {x, apply(F::sigmoid, {x})});
    case Behind::hard_swish: {
      const ValueId shifted = apply(F::add, {x, number(3)});
      const ValueId gate = apply(F::min, {apply(F::max, {shifted, number(0)}), number(6)});
      return apply(F::div, {apply(F::mul, {x, gate}), number(6)});
    }
  }
  return x;
}

/// A chain region over inputs that are added as they are needed.
class ChainMaker {
 public:
  ChainMaker(const Case& c, RandomData& data) : case_(c), data_(data) {}

  NodeTest make() {
    const int64_t seen = case_.expands ? case_.x : case_.wide;
    Tensor image = tensor({case_.batch, case_.h, case_.w, seen});
    if (case_.special != 0 && image.size() > 0) image.as_mutable<float>()[image.size() / 3] = case_.special;
    const ValueId x = input(image, false);
    ValueId result = x;
    const bool adds = case_.adds || case_.adds_x;
    if (case_.expands) result = layer(result, {case_.wide, case_.x, 1, 1}, 1, no_value, case_.behind);
    const auto residual = [&](int64_t channels) {
      if (!adds) return no_value;
      return case_.adds_x ? x : input(tensor({case_.batch, case_.out_h(), case_.out_w(), channels}), false);
    };
    const ValueId added = case_.projects ? no_value : residual(case_.wide);
    result = layer(result, {case_.wide, 1, case_.kernel_h, case_.kernel_w}, case_.wide, added, case_.behind);
    if (case_.projects) result = layer(result, {case_.y, case_.wide, 1, 1}, 1, residual(case_.y), Behind::nothing);
    body_.add_output("y", result);
    NodeTest test(ops::Region{ops::RegionKind::chain}, operands_, known_, "bands", 2e-5);
    test.bodies = {body_};
    return test;
  }

 private:
  Tensor tensor(const Dims& dims) {
    Tensor t(DType::f32, dims);
    const std::vector<float> values = data_.floats(t.size());
    std::copy(values.begin(), values.end(), t.as_mutable<float>());
    return t;
  }

  ValueId input(Tensor t, bool known) {
    if (known) known_.push_back(operands_.size());
    const TensorType type{t.dtype(), Shape(t.dims().begin(), t.dims().end())};
    operands_.push_back(std::move(t));
    return body_.add_input("i", type);
  }

  // A contract region, or a plain convolution where nothing follows it.
  ValueId layer(ValueId x, const Dims& weights, int64_t groups, ValueId added, Behind behind) {
    std::vector<ValueId> outer{x, input(tensor(weights), true)};
    if (case_.biases) outer.push_back(input(tensor({weights[0]}), true));
    ops::Conv conv{{1, 1}, Shape(4, 0), {1, 1}, groups};
    if (groups > 1) {
      conv.strides = {case_.stride_h, case_.stride_w};
      conv.pads = {case_.pads[0], case_.pads[1], case_.pads[2], case_.pads[3]};
      conv.dilations = {case_.dilation, case_.dilation};
    }
    conv.channels_last = true;
    if (behind == Behind::nothing && added == no_value) return body_.add(conv, outer, "c");
    Graph inner;
    std::vector<ValueId> own;
    for (const ValueId id : outer) own.push_back(inner.add_input("i", body_.type(id)));
    ValueId y = append(inner, inner.add(conv, own, "c"), behind);
    if (added != no_value) {
      outer.push_back(added);
      y = inner.add(ops::Pointwise{F::add}, {y, inner.add_input("r", body_.type(added))}, "s");
    }
    inner.add_output("y", y);
    return body_.add_node(ops::Region{ops::RegionKind::contract}, outer, {"l"}, {}, {inner})[0];
  }

  const Case& case_;
  RandomData& data_;
  Graph body_;
  std::vector<Tensor> operands_;
  std::vector<size_t> known_;
};

void check(const Case& c, RandomData& data, int threads) {
  SCOPED_TRACE(describe(c));
  ChainMaker(c, data).make().check(threads);
}

TEST(ConvChain, InvertedBottlenecks) {
  RandomData data;
  for_each_target([&] {
    for (const int threads : {1, 2, 5})
      for (const int64_t stride : {1, 2})
        for (const int64_t kernel : {3, 5}) {
          Case c;
          c.h = 23, c.w = 31, c.x = 12, c.wide = 70, c.y = 20;  // several bands
          c.kernel_h = c.kernel_w = kernel;
          c.stride_h = c.stride_w = stride;
          std::fill_n(c.pads, 4, kernel / 2);
          check(c, data, threads);
        }
  });
}

TEST(ConvChain, ActivationsAndResiduals) {
  RandomData data;
  for_each_target([&] {
    for (const Behind behind : {Behind::nothing, Behind::relu, Behind::relu6, Behind::silu, Behind::hard_swish})
      for (const bool projects : {true, false})
        for (int addend = 0; addend < 3; ++addend) {
          Case c;
          c.batch = 2, c.h = 17, c.w = 19, c.wide = 33;
          c.behind = behind;
          c.projects = projects;
          c.adds = addend == 1;
          c.adds_x = addend == 2;
          c.x = c.y = projects ? 16 : 33;
          check(c, data, 2);
        }
  });
}

TEST(ConvChain, RandomShapes) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      Case c;
      c.batch = data.integer(0, 3), c.h = data.integer(1, 24), c.w = data.integer(1, 24);
      c.x = data.integer(1, 40), c.wide = data.integer(2, 70), c.y = data.integer(1, 40);
      c.kernel_h = data.integer(1, 5), c.kernel_w = data.integer(1, 5);
      c.stride_h = data.integer(1, 3), c.stride_w = data.integer(1, 3), c.dilation = data.integer(1, 2);
      for (int64_t& pad : c.pads) pad = data.integer(0, 5);
      const auto extent = [&](int64_t kernel) { return (kernel - 1) * c.dilation + 1; };
      while (c.h + c.pads[0] + c.pads[2] < extent(c.kernel_h)) ++c.h;
      while (c.w + c.pads[1] + c.pads[3] < extent(c.kernel_w)) ++c.w;
      c.expands = data.integer(0, 3) > 0;
      c.projects = !c.expands || data.integer(0, 3) > 0;
      c.biases = data.integer(0, 1) == 1;
      c.adds = data.integer(0, 1) == 1;
      c.behind = static_cast<Behind>(data.integer(0, 4));
      check(c, data, static_cast<int>(data.integer(1, 4)));
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(ConvChain, NothingAtAll) {
  RandomData data;
  Case no_images;
  no_images.batch = 0;
  check(no_images, data, 2);
  Case no_pixels;
  no_pixels.h = 0;
  std::fill_n(no_pixels.pads, 4, 2);
  check(no_pixels, data, 2);
}

TEST(ConvChain, NaNAndInfinity) {
  RandomData data;
  for_each_target([&] {
    for (const float special : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity})
      for (const Behind behind : {Behind::nothing, Behind::relu, Behind::hard_swish}) {
        Case c;
        c.h = 20, c.w = 20;
        c.special = special;
        c.behind = behind;
        check(c, data, 2);
      }
  });
}

// The same numbers, whatever the bands; x and y may be slices of wider rows. (One pixel alone would be a product with a
// vector, which adds up in another order.)
TEST(ConvChain, EqualsItsPartsBitByBit) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      ConvShape d;
      d.batch = random.integer(1, 3), d.in_h = random.integer(1, 20), d.in_w = random.integer(1, 20);
      const int64_t x_channels = random.integer(1, 30), y_channels = random.integer(1, 30);
      d.in_channels = d.out_channels = d.groups = random.integer(2, 50);
      d.kernel_h = d.kernel_w = 3;
      d.stride_h = random.integer(1, 3), d.stride_w = random.integer(1, 2);
      d.pad_top = d.pad_left = d.pad_bottom = d.pad_right = 1;
      ConvShape e = d, p = d;
      e.in_channels = x_channels, p.out_channels = y_channels;
      e.kernel_h = e.kernel_w = e.stride_h = e.stride_w = e.groups = 1;
      p.kernel_h = p.kernel_w = p.stride_h = p.stride_w = p.groups = 1;
      e.pad_top = e.pad_left = e.pad_bottom = e.pad_right = 0;
      p.pad_top = p.pad_left = p.pad_bottom = p.pad_right = 0;
      p.in_h = d.out_h(), p.in_w = d.out_w();
      if (d.batch * p.in_h * p.in_w == 1) continue;
      const int64_t x_pitch = x_channels + random.integer(0, 3), y_pitch = y_channels + random.integer(0, 3);
      e.in_pixel_stride = x_pitch, p.out_pixel_stride = y_pitch;
      const auto packed = [&](const ConvShape& s) {
        const ConvWeights w = conv_weights(s.out_channels, s.in_channels, 1, 1, 1);
        std::vector<float> floats(static_cast<size_t>(w.floats()) + 16);
        pack_conv_weights(w, random.vector(s.out_channels * s.in_channels).data(), floats.data());
        return floats;
      };
      const std::vector<float> expand = packed(e), project = packed(p);
      std::vector<float> taps(static_cast<size_t>(depthwise_weight_floats(d.out_channels, 3, 3)));
      pack_depthwise_weights(d.out_channels, 3, 3, random.vector(d.out_channels * 9).data(), taps.data());
      const std::vector<float> bias = random.vector(std::max(d.out_channels, y_channels));
      Epilogue between, last;
      between.bias = last.bias = bias.data();
      between.lo = 0, between.hi = 6;

      ThreadPool pool(static_cast<int>(random.integer(1, 3)));
      const int64_t in_pixels = d.batch * d.in_h * d.in_w, out_pixels = d.batch * d.out_h() * d.out_w();
      const auto floats = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };
      const std::vector<float> x = random.vector(in_pixels * x_pitch);
      std::vector<float> wide = floats(in_pixels * d.in_channels), rows = floats(out_pixels * d.out_channels);
      std::vector<float> expected = floats(out_pixels * y_pitch), actual = expected;
      const ConvPlan e_plan(e), p_plan(p);
      Workspace scratch(std::max(e_plan.workspace_bytes(pool.size()), p_plan.workspace_bytes(pool.size())));
      conv(e_plan, x.data(), expand.data(), wide.data(), between, pool, scratch.get());
      depthwise(d, wide.data(), taps.data(), rows.data(), between, pool);
      conv(p_plan, rows.data(), project.data(), expected.data(), last, pool, scratch.get());

      ConvChain chain;
      chain.depthwise = d;
      chain.x_channels = x_channels, chain.y_channels = y_channels;
      chain.x_pixel_stride = x_pitch, chain.y_pixel_stride = y_pitch;
      const ConvChainPlan plan(chain, random.integer(1, 100));
      Workspace workspace(plan.workspace_bytes(pool.size()));
      ConvChainOperands o;
      o.x = x.data(), o.y = actual.data();
      o.expand = expand.data(), o.depthwise = taps.data(), o.project = project.data();
      o.expand_epilogue = o.depthwise_epilogue = between;
      o.project_epilogue = last;
      conv_chain(plan, o, pool, workspace.get());
      ASSERT_EQ(std::memcmp(actual.data(), expected.data(), actual.size() * sizeof(float)), 0) << "round " << round;
    }
  });
}

// Lines at the seams between threads are expanded by both. Between images there are no seams.
TEST(ConvChain, EstimatesCountTheThreads) {
  RandomData random;
  Case c;
  c.h = c.w = 32, c.x = 16, c.wide = 96, c.y = 16, c.batch = 2;
  const NodeTest test = ChainMaker(c, random).make();
  EXPECT_EQ(test.estimate(2), test.estimate(1));
  EXPECT_GT(test.estimate(4), 1.01 * test.estimate(2));
  EXPECT_GT(test.estimate(16), 1.01 * test.estimate(4));
}

}  // namespace
}  // namespace camshaft::cpu::conv_chain_test
