// Convolutions of 8-bit numbers, and what is fused behind them, against the reference: equal to the last bit.
#include <algorithm>
#include <cmath>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/conv/int8_grouped.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::integer_conv_test {
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

Problem problem_of(RandomData& random, int64_t groups, int64_t multiplier, int64_t inner) {
  const int64_t axes = random.integer(0, 5) == 0 ? 3 : random.integer(1, 2);
  Problem p;
  p.out = groups * multiplier;
  p.op.groups = groups;
  p.op.channels_last = true;
  Dims x{random.integer(1, 2)}, w{p.out, inner};
  std::vector<Dim> ends;
  for (int64_t i = 0; i < axes; ++i) {
    // Kernels of 3 and 5 columns have loops of their own, and lines of results share what other numbers of lines leave.
    w.push_back(random.integer(0, 3) == 0 && axes < 3 ? random.integer(4, 9) : random.integer(1, 3));
    x.push_back(random.integer(w.back(), axes == 3 ? 5 : random.coin() ? 11 : 40));
    p.op.strides.push_back(random.integer(1, 3));
    p.op.dilations.push_back(random.integer(1, 5) == 1 && x.back() >= 2 * w.back() ? random.integer(2, 6) : 1);
    if ((w.back() - 1) * p.op.dilations.back() >= x.back()) p.op.dilations.back() = 1;
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
  return p.op.groups > 1 && w[1] == 1 && w.size() <= 4;
}

// Whether groups are narrow enough to share vectors of the instruction set in use.
bool is_grouped(const Problem& p) {
  const Dims& w = p.operands[1].dims();
  int64_t taps = 1;
  for (size_t i = 2; i < w.size(); ++i) taps *= w[i];
  return p.op.groups > 1 && !is_depthwise(p) &&
         int8_grouped_takes(int8_grouped_weights(p.out, w[1], taps, p.op.groups), p.op.groups * w[1]);
}

enum class Groups : uint8_t { one, some, depthwise, narrow };
constexpr Groups kGroups[] = {Groups::depthwise, Groups::one, Groups::some, Groups::narrow};

Problem random_problem(RandomData& random, Groups kind) {
  if (kind == Groups::depthwise) {
    const int64_t multiplier = std::max<int64_t>(1, random.integer(-3, 3));
    return problem_of(random, random.integer(1, random.coin() ? 50 : 200), multiplier, 1);
  }
  if (kind == Groups::narrow) {
    const int64_t outputs = random.coin() ? int64_t{1} << random.integer(0, 4) : random.integer(1, 16);
    const int64_t inputs = random.coin() ? outputs : random.integer(1, 40);
    return problem_of(random, random.integer(2, random.coin() ? 70 : 8), outputs, inputs);
  }
  const int64_t groups = kind == Groups::one ? 1 : random.integer(2, 4);
  return problem_of(random, groups, random.integer(1, 20), random.integer(1, 24));
}

TEST(IntegerConv, LikeTheReference) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      const Problem p = random_problem(random, kGroups[round % 4]);
      for (const std::string tactic : {"integer_conv", "integer_depthwise", "integer_grouped"}) {
        if (tactic == "integer_depthwise" && !is_depthwise(p)) continue;
        if (tactic == "integer_grouped" && !is_grouped(p)) continue;
        std::vector<size_t> constants{1};
        if (tactic == "integer_conv" && random.integer(0, 3) == 0) constants.clear();
        const NodeTest test(p.op, p.operands, constants, tactic);
        test.check(1);
        test.check(3);
      }
    }
  });
}

// A body that gets what the problem has: the sums, and more operands as inputs of the region.
struct Body {
  Graph graph;
  std::vector<Tensor> given;

  ValueId input(const Tensor& t) {
    given.push_back(t);
    return graph.add_input("x" + std::to_string(given.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  }
  ValueId sums(const Problem& p) {
    std::vector<ValueId> ids;
    for (const Tensor& t : p.operands) ids.push_back(t.defined() ? input(t) : no_value);
    return graph.add(p.op, ids, "sums");
  }
  ValueId number(double x) { return graph.add_constant("c", Tensor::scalar(DType::f32, x)); }
  ValueId apply(F function, ValueId a, ValueId b = no_value) {
    return graph.add(ops::Pointwise{function}, b == no_value ? std::vector{a} : std::vector{a, b}, "v");
  }
  ValueId real(ValueId steps, double zero, double scale) {
    return apply(F::mul, apply(F::sub, graph.add(ops::Cast{DType::f32}, {steps}, "f"), number(zero)), number(scale));
  }
  ValueId steps(ValueId x, double zero, DType to) {
    return graph.add(ops::Cast{to}, {apply(F::add, apply(F::round, x), number(zero))}, "q");
  }
};

Tensor scale_of(RandomData& random, int64_t channels, int exponent) {
  Tensor scale(DType::f32, random.coin() ? Dims{channels} : Dims{});
  for (int64_t i = 0; i < scale.size(); ++i) scale.as_mutable<float>()[i] = std::ldexp(random.real(), exponent);
  return scale;
}

std::string tactic_of(const Problem& p) {
  return is_depthwise(p) ? "integer_depthwise" : is_grouped(p) ? "integer_grouped" : "integer_conv";
}

// As QLinearConv has it.
TEST(IntegerConv, StepsOfSums) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      const Problem p = random_problem(random, kGroups[round % 4]);
      Body body;
      ValueId y = body.graph.add(ops::Cast{DType::f32}, {body.sums(p)}, "f");
      // Up to where steps do not fit i32 any more, and beyond f32.
      const int exponent = random.integer(0, 9) == 0 ? static_cast<int>(random.integer(10, 120)) : -6;
      y = body.apply(F::mul, y, body.input(scale_of(random, p.out, exponent)));
      if (random.coin())
        y = body.apply(F::max, body.apply(F::min, y, body.number(random.real() * 100)), body.number(-3));
      body.graph.add_output("y", body.steps(y, 5, byte_type(random)));
      NodeTest test(ops::Region{ops::RegionKind::contract}, body.given, {1}, tactic_of(p));
      test.bodies = {body.graph};
      test.check(1);
      test.check(2);
    }
  });
}

// What a quantizer writes around an activation: steps, a function of them, steps of its own, and so on.
TEST(IntegerConv, FunctionsOfSteps) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      const Problem p = random_problem(random, kGroups[round % 4]);
      Body body;
      ValueId y = body.graph.add(ops::Cast{DType::f32}, {body.sums(p)}, "f");
      y = body.apply(F::mul, y, body.input(scale_of(random, p.out, -6)));
      const double zero = static_cast<double>(random.integer(-100, 100));
      const ValueId x = body.real(body.steps(y, zero, byte_type(random)), zero, 0.05);
      const F gate = random.coin() ? F::sigmoid : F::tanh;
      const ValueId gates =
          body.real(body.steps(body.apply(F::mul, body.apply(gate, x), body.number(126)), 0, DType::i8), 0, 1.0 / 126);
      const ValueId product = body.apply(F::mul, body.apply(F::mul, x, gates), body.number(15));
      body.graph.add_output("y", body.steps(product, random.coin() ? 20 : 0, byte_type(random)));
      NodeTest test(ops::Region{ops::RegionKind::contract}, body.given, {1}, tactic_of(p));
      test.bodies = {body.graph};
      test.check(1);
      test.check(2);
    }
  });
}

// Steps of the sums, a residual of 8 bits, bounds, and other steps. The numbers are such that f32 is exact.
TEST(IntegerConv, StepsWithResidual) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 80; ++round) {
      const Problem p = random_problem(random, kGroups[round % 4]);
      Body body;
      const ValueId sums = body.sums(p);
      Tensor scale(DType::f32, {p.out});
      for (int64_t i = 0; i < p.out; ++i)
        scale.as_mutable<float>()[i] = std::ldexp(1.0F, -static_cast<int>(random.integer(4, 9)));
      ValueId y = body.apply(F::mul, body.graph.add(ops::Cast{DType::f32}, {sums}, "f"), body.input(scale));
      if (random.integer(0, 3) > 0) y = body.real(body.steps(y, 7, byte_type(random)), 7, 0.5);
      Dims dims;
      for (const Dim& d : body.graph.shape(sums)) dims.push_back(d.as_constant().value());
      const ValueId other = body.input(bytes(random, byte_type(random), dims));
      y = body.apply(F::add, y, body.real(other, 3, 0.25));
      if (random.coin()) y = body.apply(F::max, y, body.number(0));
      body.graph.add_output("y", body.steps(y, 2, byte_type(random)));
      NodeTest test(ops::Region{ops::RegionKind::contract}, body.given, {1}, tactic_of(p));
      test.bodies = {body.graph};
      test.check(1);
      test.check(2);
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::integer_conv_test
