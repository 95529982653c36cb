// The convolution tactics through the CPU backend: three axes, groups, weights that are no constants.
#include <gtest/gtest.h>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::convolution_test {
namespace {

void check(const ConvProblem& p, const std::string& tactic, bool constant_weights, int threads) {
  std::vector<size_t> constants{2};
  if (constant_weights) constants.push_back(1);
  NodeTest(p.op, {p.x, p.weights, p.bias}, constants, tactic, 1e-5).check(threads);
}

TEST(Convolution, OneToThreeAxesWithConstantAndOtherWeights) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t groups = round % 3 == 0 ? data.integer(2, 4) : 1;
      const ConvProblem p = random_problem(data, static_cast<size_t>(1 + round % 3), groups, data.integer(1, 20),
                                           data.integer(1, round % 7 == 0 ? 90 : 20));
      check(p, "conv", round % 2 == 0, 1 + round % 3);
    }
  });
}

// With strides too, and weights that are packed in each run.
TEST(Convolution, TransposedWithConstantAndOtherWeights) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const auto axes = static_cast<size_t>(1 + round % 3);
      const int64_t groups = round % 4 == 0 ? data.integer(2, 4) : 1;
      const int64_t inputs = data.integer(1, 20), outputs = data.integer(1, round % 7 == 0 ? 90 : 20);
      ops::ConvTranspose op;
      op.groups = groups;
      op.channels_last = true;
      op.pads.assign(2 * axes, Dim(0));
      Dims x{data.integer(1, 2)}, weights{groups * inputs, outputs};
      for (size_t i = 0; i < axes; ++i) {
        op.strides.push_back(data.integer(1, 3));
        op.dilations.push_back(data.integer(1, 2));
        op.output_padding.emplace_back(data.integer(0, op.strides[i] - 1));
        weights.push_back(round % 5 ? data.integer(1, 4) : op.strides[i]);
        x.push_back(data.integer(1, axes == 3 ? 5 : 12));
      }
      x.push_back(groups * inputs);
      std::vector<Tensor> operands{floats(data, x), floats(data, weights)};
      if (data.integer(0, 1)) operands.push_back(floats(data, {groups * outputs}));
      std::vector<size_t> constants{2};
      if (round % 2 == 0) constants.push_back(1);
      NodeTest(op, operands, constants, "conv_transpose", 1e-5).check(1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Convolution, GroupsThatShareVectors) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const size_t axes = static_cast<size_t>(1 + round % 3);
      const ConvProblem p = random_problem(data, axes, data.integer(2, 40), data.integer(1, 9), data.integer(1, 9));
      check(p, "grouped_conv", round % 2 == 0, 1 + round % 3);
    }
  });
}

TEST(Convolution, FewChannels) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      ConvProblem p =
          random_problem(data, static_cast<size_t>(1 + round % 2), 1, data.integer(1, 4), data.integer(1, 70));
      if (p.weights.size() == p.weights.dims()[0] * p.weights.dims()[1]) continue;  // 1x1
      check(p, "stem_conv", true, 1 + round % 3);
    }
  });
}

// The image as it comes, channels first, through the chain of its transpose and the convolution, with a pooling behind
// it or without.
void check_image(RandomData& data, int round, float special) {
  ConvProblem p = random_problem(data, 2, 1, data.integer(1, 4), data.integer(1, 70));
  if (p.weights.size() == p.weights.dims()[0] * p.weights.dims()[1]) return;  // 1x1
  const bool is_first = round % 4 != 0, pools = round % 4 == 0 || round % 3 == 0;
  Dims dims = p.x.dims();
  if (is_first) std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  Graph body;
  const auto type = [](const Tensor& t) { return TensorType{t.dtype(), Shape(t.dims().begin(), t.dims().end())}; };
  Tensor x = floats(data, dims);
  if (special != 0) x.as_mutable<float>()[x.size() / 2] = special;
  ValueId image = body.add_input("x", type(x));
  const ValueId weights = body.add_input("w", type(p.weights));
  if (is_first) image = body.add(ops::Transpose{{0, 2, 3, 1}}, {image}, "t");
  std::vector<ValueId> inputs{image, weights};
  std::vector<Tensor> operands{x, p.weights};
  if (p.bias.defined()) {
    operands.push_back(p.bias);
    inputs.push_back(body.add_input("b", type(p.bias)));
  }
  ValueId result = no_value;
  if (round % 2 == 0) {
    Graph inner;
    std::vector<ValueId> own;
    for (const ValueId id : inputs) own.push_back(inner.add_input("i", body.type(id)));
    const ValueId zero = inner.add_constant("zero", Tensor::scalar(DType::f32, 0));
    inner.add_output("y", inner.add(ops::Pointwise{ScalarFunction::max}, {inner.add(p.op, own, "c"), zero}, "y"));
    result = body.add_node(ops::Region{ops::RegionKind::contract}, inputs, {"y"}, {}, {inner})[0];
  } else {
    result = body.add(p.op, inputs, "y");
  }
  if (pools) {
    ops::Pool pool;
    pool.channels_last = true;
    pool.pads.assign(4, Dim(0));
    for (size_t i = 0; i < 2; ++i) {
      const int64_t size = *body.shape(result)[1 + i].as_constant();
      pool.kernel.push_back(data.integer(1, std::min<int64_t>(size, 3)));
      pool.strides.push_back(data.integer(1, 3));
      pool.dilations.push_back(1);
      pool.pads[i] = Dim(data.integer(0, pool.kernel[i] - 1));
      pool.pads[2 + i] = Dim(data.integer(0, pool.kernel[i] - 1));
    }
    result = body.add(pool, {result}, "p");
  }
  body.add_output("y", result);
  if (body.nodes.size() == 1) return;
  NodeTest test(ops::Region{ops::RegionKind::chain}, operands, {1}, "stem_conv", 1e-5);
  test.bodies = {body};
  test.check(1 + round % 3);
}

TEST(Convolution, ImagesThatLieChannelByChannelAndPoolings) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) check_image(data, round, 0);
    for (int round = 0; round < 24; ++round)
      check_image(data, round, round % 2 ? std::numeric_limits<float>::infinity() : -1e30f);
  });
}

// What the micro-kernel does not do itself runs on blocks of the result: a slope a channel, of few and of many.
TEST(Convolution, EpiloguesWithOneNumberAChannel) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 24; ++round) {
      const int64_t outputs = round % 6 == 0 ? 2100 : data.integer(1, 150);
      const ConvProblem p = random_problem(data, 2, 1, round % 2 ? data.integer(1, 4) : data.integer(5, 20), outputs);
      const auto type = [](const Tensor& t) { return TensorType{t.dtype(), Shape(t.dims().begin(), t.dims().end())}; };
      const Tensor slopes = floats(data, {outputs});
      Graph body;
      const ValueId x = body.add_input("x", type(p.x)), w = body.add_input("w", type(p.weights));
      const ValueId slope = body.add_input("s", type(slopes));
      const ValueId zero = body.add_constant("zero", Tensor::scalar(DType::f32, 0));
      const auto apply = [&](ScalarFunction f, std::vector<ValueId> inputs) {
        return body.add(ops::Pointwise{f}, std::move(inputs), "p");
      };
      const ValueId c = body.add(p.op, {x, w}, "c");
      const ValueId below = apply(ScalarFunction::less, {c, zero}), sloped = apply(ScalarFunction::mul, {c, slope});
      body.add_output("y", apply(ScalarFunction::select, {below, sloped, c}));
      const bool is_stem = round % 2 == 1 && p.weights.size() > p.weights.dims()[0] * p.weights.dims()[1];
      NodeTest test(ops::Region{ops::RegionKind::contract}, {p.x, p.weights, slopes}, {1},
                    is_stem ? "stem_conv" : "conv", 1e-5);
      test.bodies = {body};
      test.check(1 + round % 3);
    }
  });
}

TEST(Convolution, NanAndInfinityInTheWeightsStayInTheirChannel) {
  RandomData data;
  ConvProblem p = random_problem(data, 3, 1, 5, 20);
  const int64_t a_channel = p.weights.size() / 20;
  p.weights.as_mutable<float>()[3 * a_channel] = std::numeric_limits<float>::quiet_NaN();
  p.weights.as_mutable<float>()[4 * a_channel] = std::numeric_limits<float>::infinity();
  for_each_target([&] {
    for (const bool constant : {false, true}) check(p, "conv", constant, 2);
  });
}

TEST(Convolution, ABoundThatIsNaN) {
  RandomData data;
  const Tensor image = floats(data, {1, 5, 6, 3}), weights = floats(data, {20, 3, 3, 3});
  const auto type = [](const Tensor& t) { return TensorType{DType::f32, Shape(t.dims().begin(), t.dims().end())}; };
  for_each_target([&] {
    for (const bool highest : {false, true})
      for (const bool constant_first : {false, true}) {
        Graph body;
        const ValueId x = body.add_input("x", type(image)), w = body.add_input("w", type(weights));
        ops::Conv conv{{1, 1}, Shape(4, 1), {1, 1}, 1};
        conv.channels_last = true;
        const ValueId y = body.add(conv, {x, w}, "c");
        const ValueId bound = body.add_constant(
            "k", Tensor::scalar(DType::f32, static_cast<double>(std::numeric_limits<float>::quiet_NaN())));
        const ops::Pointwise clamp{highest ? ScalarFunction::min : ScalarFunction::max};
        body.add_output("y", body.add(clamp, {constant_first ? bound : y, constant_first ? y : bound}, "m"));
        NodeTest test(ops::Region{ops::RegionKind::contract}, {image, weights}, {1}, "conv", 1e-5);
        test.bodies = {body};
        test.check(2);
      }
  });
}

}  // namespace
}  // namespace camshaft::cpu::convolution_test
