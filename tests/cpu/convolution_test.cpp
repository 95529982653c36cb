// The convolution tactics through the CPU backend: three axes, groups, weights that are no constants.
#include <gtest/gtest.h>

#include "cpu/each_target.h"
#include "cpu/random_data.h"
#include "cpu/run_node.h"
#include "ops/contract.h"

namespace camshaft::cpu {
namespace {

Tensor floats(RandomData& data, const Dims& dims) {
  Tensor t(DType::f32, dims);
  const std::vector<float> values = data.floats(element_count(dims));
  std::copy(values.begin(), values.end(), t.as_mutable<float>());
  return t;
}

struct Problem {
  ops::Conv op;
  Tensor x, weights, bias;
};

// Channels last, `axes` spatial axes, `inputs` and `outputs` channels a group.
Problem random_problem(RandomData& data, size_t axes, int64_t groups, int64_t inputs, int64_t outputs) {
  Problem p;
  p.op.groups = groups;
  p.op.channels_last = true;
  p.op.pads.assign(2 * axes, Dim(0));
  Dims x{data.pick(1, 2)}, weights{groups * outputs, inputs};
  for (size_t i = 0; i < axes; ++i) {
    const int64_t kernel = data.pick(1, 3), dilation = data.pick(1, 2), reach = (kernel - 1) * dilation + 1;
    const int64_t begin = data.pick(0, reach - 1), end = data.pick(0, reach - 1);
    p.op.strides.push_back(data.pick(1, 2));
    p.op.dilations.push_back(dilation);
    p.op.pads[i] = Dim(begin);
    p.op.pads[axes + i] = Dim(end);
    x.push_back(std::max<int64_t>(1, reach - begin - end) + data.pick(0, axes == 3 ? 5 : 12));
    weights.push_back(kernel);
  }
  x.push_back(groups * inputs);
  p.x = floats(data, x);
  p.weights = floats(data, weights);
  if (data.pick(0, 1)) p.bias = floats(data, {groups * outputs});
  return p;
}

void check(const Problem& p, const std::string& tactic, bool constant_weights, int threads) {
  std::vector<size_t> constants{2};
  if (constant_weights) constants.push_back(1);
  NodeTest(p.op, {p.x, p.weights, p.bias}, constants, tactic, 1e-5).check(threads);
}

TEST(Convolution, OneToThreeAxesWithConstantAndOtherWeights) {
  RandomData data(71);
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t groups = round % 3 == 0 ? data.pick(2, 4) : 1;
      const Problem p = random_problem(data, static_cast<size_t>(1 + round % 3), groups, data.pick(1, 20),
                                       data.pick(1, round % 7 == 0 ? 90 : 20));
      check(p, "conv", round % 2 == 0, 1 + round % 3);
    }
  });
}

TEST(Convolution, GroupsThatShareVectors) {
  RandomData data(72);
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const size_t axes = static_cast<size_t>(1 + round % 3);
      const Problem p = random_problem(data, axes, data.pick(2, 40), data.pick(1, 9), data.pick(1, 9));
      check(p, "grouped_conv", round % 2 == 0, 1 + round % 3);
    }
  });
}

TEST(Convolution, NanAndInfinityInTheWeightsStayInTheirChannel) {
  RandomData data(73);
  Problem p = random_problem(data, 3, 1, 5, 20);
  const int64_t a_channel = p.weights.size() / 20;
  p.weights.as_mutable<float>()[3 * a_channel] = std::numeric_limits<float>::quiet_NaN();
  p.weights.as_mutable<float>()[4 * a_channel] = std::numeric_limits<float>::infinity();
  for_each_target([&] {
    for (const bool constant : {false, true}) check(p, "conv", constant, 2);
  });
}

}  // namespace
}  // namespace camshaft::cpu
