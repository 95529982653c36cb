// Convolutions of 8-bit numbers, and what is fused behind them, against the reference: equal to the last bit.
#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/region.h"

namespace camshaft::cpu {
namespace {

using F = ScalarFunction;

Tensor bytes(RandomData& random, DType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  for (size_t i = 0; i < t.bytes(); ++i) t.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
  return t;
}

DType byte_type(RandomData& random) {
  return random.coin() ? DType::i8 : DType::u8;
}

struct Problem {
  ops::IntegerConv op;
  std::vector<Tensor> operands;  // x, weights, zero points, bias
  int64_t out = 0;
};

// `groups`: 1; 0: several, -1: one a channel.
Problem random_problem(RandomData& random, int64_t groups) {
  const int64_t axes = random.integer(0, 5) == 0 ? 3 : random.integer(1, 2);
  const int64_t multiplier = groups < 0 ? 1 : random.integer(1, 20);
  const int64_t inner = groups < 0 ? 1 : random.integer(1, 24);
  if (groups <= 0) groups = groups < 0 ? random.integer(1, 50) : random.integer(2, 4);
  Problem p;
  p.out = groups * multiplier;
  p.op.groups = groups;
  p.op.channels_last = true;
  Dims x{random.integer(1, 2)}, w{p.out, inner};
  std::vector<Dim> ends;
  for (int64_t i = 0; i < axes; ++i) {
    x.push_back(random.integer(3, axes == 3 ? 5 : 11));
    w.push_back(random.integer(1, 3));
    p.op.strides.push_back(random.integer(1, 2));
    p.op.dilations.push_back(random.integer(1, 5) == 1 && x.back() > 5 ? 2 : 1);
    p.op.pads.emplace_back(random.integer(0, 2));
    ends.emplace_back(random.integer(0, 2));
  }
  p.op.pads.insert(p.op.pads.end(), ends.begin(), ends.end());
  x.push_back(groups * inner);
  const DType of_x = byte_type(random), of_w = byte_type(random);
  Tensor bias(DType::i32, {p.out});
  for (int64_t i = 0; i < p.out; ++i) bias.as_mutable<int32_t>()[i] = static_cast<int32_t>(random.integer(-5000, 5000));
  p.operands = {bytes(random, of_x, x), bytes(random, of_w, w), bytes(random, of_x, random.coin() ? Dims{} : Dims{1}),
                bytes(random, of_w, random.coin() ? Dims{} : Dims{p.out}), bias};
  for (const size_t i : {2, 3, 4})
    if (random.integer(0, 2) == 0) p.operands[i] = {};
  return p;
}

bool is_depthwise(const Problem& p) {
  const Dims& w = p.operands[1].dims();
  return p.op.groups > 1 && p.op.groups == w[0] && w[1] == 1 && w.size() <= 4 && element_count(w) > w[0];
}

TEST(IntegerConv, LikeTheReference) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const Problem p = random_problem(random, round % 3 - 1);
      for (const std::string tactic : {"integer_conv", "integer_depthwise"}) {
        if (tactic == "integer_depthwise" && !is_depthwise(p)) continue;
        std::vector<size_t> constants{1};
        if (tactic == "integer_conv" && random.integer(0, 3) == 0) constants.clear();
        const NodeTest test(p.op, p.operands, constants, tactic);
        test.check(1);
        test.check(3);
      }
    }
  });
}

// As QLinearConv has it.
TEST(IntegerConv, StepsOfSums) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      Problem p = random_problem(random, round % 3 - 1);
      const DType to = byte_type(random);
      Tensor scale(DType::f32, random.coin() ? Dims{p.out} : Dims{});
      for (int64_t i = 0; i < scale.size(); ++i) scale.as_mutable<float>()[i] = std::ldexp(random.real(), -6);
      Graph body;
      std::vector<ValueId> ids;
      std::vector<Tensor> given;
      for (const Tensor& t : p.operands) {
        ids.push_back(no_value);
        if (!t.defined()) continue;
        ids.back() =
            body.add_input("x" + std::to_string(given.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
        given.push_back(t);
      }
      const ValueId by = body.add_input("by", {DType::f32, Shape(scale.dims().begin(), scale.dims().end())});
      given.push_back(scale);
      ValueId y = body.add(ops::Cast{DType::f32}, {body.add(p.op, ids, "sums")}, "f");
      y = body.add(ops::Pointwise{F::round}, {body.add(ops::Pointwise{F::mul}, {y, by}, "m")}, "r");
      const ValueId zero = body.add_constant("zero", Tensor::scalar(DType::f32, 5));
      y = body.add(ops::Pointwise{F::add}, {y, zero}, "z");
      body.add_output("y", body.add(ops::Cast{to}, {y}, "c"));
      NodeTest test(ops::Region{ops::RegionKind::contract}, given, {1},
                    is_depthwise(p) ? "integer_depthwise" : "integer_conv");
      test.bodies = {body};
      test.check(1);
      test.check(2);
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu
