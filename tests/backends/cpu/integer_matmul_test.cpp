// Matrix products of 8-bit numbers, and what is fused behind them, against the reference: equal to the last bit.
#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/region.h"
#include "ir/text.h"

namespace camshaft::cpu::integer_matmul_test {
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

TensorType type_of(const Tensor& t) {
  return {t.dtype(), Shape(t.dims().begin(), t.dims().end())};
}

// Zero points of a matrix, or none: `many` for a row or column of it.
Tensor zeros(RandomData& random, DType dtype, const Dims& many) {
  const int64_t kind = random.integer(0, 3);
  if (kind == 0) return {};
  return bytes(random, dtype, kind == 1 ? many : kind == 2 ? Dims{} : Dims{1});
}

TEST(IntegerMatMul, LikeTheReference) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t m = random.integer(0, 30), n = random.integer(0, 150), k = random.integer(0, 90);
      const DType a = byte_type(random), b = byte_type(random);
      const bool batches = random.integer(0, 2) == 0;
      const int64_t outer = random.integer(1, 3), inner = random.integer(1, 3);
      std::vector<Tensor> operands{bytes(random, a, batches ? Dims{outer, inner, m, k} : Dims{m, k}),
                                   bytes(random, b, batches && random.coin() ? Dims{inner, k, n} : Dims{k, n}),
                                   zeros(random, a, batches ? Dims{1} : Dims{m, 1}), zeros(random, b, Dims{n})};
      if (operands[1].dims().size() == 3 && operands[2].size() > 1) operands[2] = {};
      std::vector<size_t> constants;
      if (random.coin()) constants = {1};
      if (random.coin() && operands[3].defined()) constants.push_back(3);
      const NodeTest test(ops::IntegerMatMul{}, operands, constants, "integer_matmul");
      test.check(1);
      test.check(3);
    }
  });
}

// A region: the product and what `behind` makes of its result, from further operands.
NodeTest region(const std::vector<Tensor>& operands, size_t of_product, const std::vector<size_t>& constants,
                const std::function<ValueId(Graph&, ValueId, const std::vector<ValueId>&)>& behind,
                double tolerance = 0) {
  Graph body;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < operands.size(); ++i)
    ids.push_back(body.add_input("x" + std::to_string(i), type_of(operands[i])));
  const ValueId sums =
      body.add(ops::IntegerMatMul{}, {ids.begin(), ids.begin() + static_cast<int64_t>(of_product)}, "sums");
  const std::vector<ValueId> others(ids.begin() + static_cast<int64_t>(of_product), ids.end());
  body.add_output("y", behind(body, sums, others));
  NodeTest test(ops::Region{ops::RegionKind::contract}, operands, constants, "integer_matmul", tolerance);
  test.bodies = {body};
  return test;
}

ValueId apply(Graph& body, F function, std::vector<ValueId> inputs) {
  return body.add(ops::Pointwise{function}, std::move(inputs), std::string(to_string(function)));
}
ValueId cast(Graph& body, ValueId x, DType to) {
  return body.add(ops::Cast{to}, {x}, "cast");
}

// As dynamic quantisation has it: · scale + bias, then a residual and a clamp, or more than the kernel does in
// registers.
TEST(IntegerMatMul, ScaledSums) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 30; ++round) {
      const int64_t m = random.integer(1, 40), n = random.integer(1, 200), k = random.integer(1, 60);
      const DType a = byte_type(random), b = byte_type(random);
      const bool by_column = random.coin(), square = random.coin(), divided = random.integer(0, 3) == 0;
      const std::vector<Tensor> operands{bytes(random, a, {m, k}),
                                         bytes(random, b, {k, n}),
                                         bytes(random, a, {}),
                                         bytes(random, b, random.coin() ? Dims{} : Dims{n}),
                                         floats(random, by_column ? Dims{n} : Dims{}, 0.01F),
                                         floats(random, {n}),
                                         floats(random, {m, n})};
      const NodeTest test = region(
          operands, 4, {1, 3, 5},
          [&](Graph& g, ValueId sums, const std::vector<ValueId>& more) {
            const ValueId number = cast(g, sums, DType::f32);
            ValueId y = apply(g, divided ? F::div : F::mul, {number, more[0]});
            y = apply(g, F::add, {apply(g, F::add, {y, more[1]}), more[2]});
            y = apply(g, F::max, {y, g.add_constant("zero", Tensor::scalar(DType::f32, 0))});
            return square ? apply(g, F::mul, {y, apply(g, F::add, {y, more[2]})}) : y;
          },
          1e-6);
      test.check(1);
      test.check(2);
    }
  });
}

// As quantised residual blocks have it: steps of the product's own, or none, beside steps of another tensor. Factors
// are powers of two, so that every order of them gives the same numbers.
TEST(IntegerMatMul, StepsOfSumsAndOfAnAddend) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t m = random.integer(1, 40), n = random.integer(1, 200), k = random.integer(1, 20);
      const DType a = byte_type(random), b = byte_type(random), other = byte_type(random), to = byte_type(random),
                  own = byte_type(random);
      const bool rounds = random.coin(), relu = random.coin(), swapped = random.coin();
      Tensor scale = floats(random, random.coin() ? Dims{n} : Dims{}, 0.01F);
      if (!rounds) std::fill_n(scale.as_mutable<float>(), scale.size(), 0.25F);
      if (rounds && round % 5 == 0)
        scale.as_mutable<float>()[0] =
            random.coin() ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
      const std::vector<Tensor> operands{
          bytes(random, a, {m, k}),    bytes(random, b, {k, n}), bytes(random, a, {}), bytes(random, b, {}), scale,
          bytes(random, other, {m, n})};
      const NodeTest test = region(operands, 4, {1}, [&](Graph& g, ValueId sums, const std::vector<ValueId>& more) {
        const auto number = [&](double x) { return g.add_constant("c", Tensor::scalar(DType::f32, x)); };
        const auto step = [&](DType t) { return number(random.integer(0, 100) - (t == DType::i8 ? 50 : 0)); };
        const auto in_steps = [&](ValueId x, DType t, ValueId zero) {
          return cast(g, apply(g, F::add, {apply(g, F::round, {x}), zero}), t);
        };
        const auto real = [&](ValueId x, ValueId zero, double factor) {
          return apply(g, F::mul, {apply(g, F::sub, {cast(g, x, DType::f32), zero}), number(factor)});
        };
        ValueId y = apply(g, F::mul, {cast(g, sums, DType::f32), more[0]});
        if (rounds) {
          const ValueId zero = step(own);
          y = real(in_steps(y, own, zero), zero, 0.5);
        }
        const ValueId added = real(more[1], step(other), 0.25);
        y = swapped ? apply(g, F::add, {added, y}) : apply(g, F::add, {y, added});
        if (relu) y = apply(g, F::max, {y, number(0)});
        return in_steps(apply(g, F::div, {y, number(2)}), to, step(to));
      });
      test.check(1);
      test.check(3);
    }
  });
}

// As QLinearMatMul has it, with scales that make halves and with such as are no numbers.
TEST(IntegerMatMul, StepsOfSums) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t m = random.integer(1, 40), n = random.integer(1, 200), k = random.integer(1, 20);
      const DType a = byte_type(random), b = byte_type(random), to = byte_type(random);
      Tensor scale = floats(random, random.coin() ? Dims{n} : Dims{}, 0.01F);
      if (random.coin())
        std::fill_n(scale.as_mutable<float>(), scale.size(), 0.5F / static_cast<float>(1 << (round % 8)));
      if (round % 5 == 0)
        scale.as_mutable<float>()[0] =
            random.coin() ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
      const bool zero = random.coin(), constant_zero = random.coin(), relu = random.integer(0, 3) == 0;
      const std::vector<Tensor> operands{
          bytes(random, a, {m, k}),     bytes(random, b, {k, n}), bytes(random, a, {}), bytes(random, b, {}), scale,
          Tensor::scalar(DType::f32, 7)};
      const NodeTest test = region(operands, 4, {1}, [&](Graph& g, ValueId sums, const std::vector<ValueId>& more) {
        ValueId y = apply(g, F::round, {apply(g, F::mul, {cast(g, sums, DType::f32), more[0]})});
        if (zero) {
          const ValueId by =
              constant_zero ? g.add_constant("by", Tensor::scalar(DType::f32, round % 4 == 0 ? 2.5 : 3)) : more[1];
          y = apply(g, F::add, {y, by});
        }
        if (relu) y = apply(g, F::max, {y, g.add_constant("zero", Tensor::scalar(DType::f32, 0))});
        return cast(g, y, to);
      });
      test.check(1);
      test.check(3);
    }
  });
}

// Bias, GELU or another activation, or none, and Quantize behind them: as reference and kernel compute functions in
// other ways, a step apart at most.
TEST(IntegerMatMul, StepsBehindAnActivation) {
  RandomData random;
  constexpr double one_step = 1.01 / 255;
  for_each_target([&] {
    for (int round = 0; round < 30; ++round) {
      const int64_t m = random.integer(1, 70), n = random.integer(1, 200), k = random.integer(1, 200);
      const bool is_signed = random.coin();
      const std::vector<Tensor> operands{bytes(random, DType::u8, {m, k}), bytes(random, DType::i8, {k, n}),
                                         bytes(random, DType::u8, {}),     bytes(random, DType::i8, {}),
                                         floats(random, {n}, 0.001F),      floats(random, {n})};
      const NodeTest test = region(
          operands, 4, {1, 3},
          [&](Graph& g, ValueId sums, const std::vector<ValueId>& more) {
            const auto number = [&](double x) { return g.add_constant("c", Tensor::scalar(DType::f32, x)); };
            ValueId y = apply(g, F::mul, {cast(g, sums, DType::f32), more[0]});
            y = apply(g, F::add, {y, more[1]});
            if (round % 3 == 1) y = apply(g, F::tanh, {y});
            if (round % 3 == 2) {
              const ValueId erf = apply(g, F::erf, {apply(g, F::div, {y, number(1.4142135)})});
              y = apply(g, F::mul, {apply(g, F::mul, {y, apply(g, F::add, {erf, number(1)})}), number(0.5)});
            }
            const double step = round % 3 == 1 ? 1.0 / 128 : 0.05, zero = is_signed ? -3 : 20;
            y = apply(g, F::add, {apply(g, F::round, {apply(g, F::div, {y, number(step)})}), number(zero)});
            return cast(g, y, is_signed ? DType::i8 : DType::u8);
          },
          2 * one_step);
      test.check(1);
      test.check(3);
    }
  });
}

// The sums themselves go on in i32.
TEST(IntegerMatMul, ProgramsOfSums) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 12; ++round) {
      const int64_t m = random.integer(1, 300), n = random.integer(1, 300), k = random.integer(1, 20);
      Tensor added(DType::i32, random.coin() ? Dims{n} : Dims{m, n});
      for (int64_t i = 0; i < added.size(); ++i)
        added.as_mutable<int32_t>()[i] = static_cast<int32_t>(random.integer(-999, 999));
      const NodeTest test = region({bytes(random, DType::u8, {m, k}), bytes(random, DType::i8, {k, n}), added}, 2, {1},
                                   [&](Graph& g, ValueId sums, const std::vector<ValueId>& more) {
                                     const ValueId y = apply(g, F::max, {sums, more[0]});
                                     return round % 2 == 0 ? y : cast(g, y, DType::i8);
                                   });
      test.check(1);
      test.check(2);
    }
  });
}

TEST(DynamicQuantize, LikeTheReference) {
  RandomData random;
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for_each_target([&] {
    for (const int64_t size : {0, 1, 2, 7, 16, 33, 300, 40000, 100003}) {
      for (int kind = 0; kind < 8; ++kind) {
        Tensor x = floats(random, {size});
        auto* numbers = x.as_mutable<float>();
        if (kind == 1) std::fill_n(numbers, size, 0.0F);
        if (kind == 2) std::transform(numbers, numbers + size, numbers, [](float v) { return std::fabs(v) + 1; });
        if (kind == 3) std::transform(numbers, numbers + size, numbers, [](float v) { return -std::fabs(v) - 1; });
        // Steps of one half: ties are rounded to even.
        if (kind == 4) std::transform(numbers, numbers + size, numbers, [](float v) { return std::round(v * 20) / 2; });
        if (kind == 4 && size > 2) numbers[0] = 0, numbers[1] = 255;
        if (kind == 5 && size > 0) numbers[random.integer(0, size - 1)] = nan;
        if (kind == 6 && size > 0) numbers[random.integer(0, size - 1)] = random.coin() ? infinity : -infinity;
        if (kind == 7) std::transform(numbers, numbers + size, numbers, [](float v) { return v * 1e-41F; });
        NodeTest test(ops::DynamicQuantize{}, {x}, {}, "dynamic_quantize");
        test.outputs = 3;
        test.check(1);
        test.check(3);
      }
    }
  });
}

// A node may leave out its last results; the kernel writes all three.
TEST(DynamicQuantize, WithoutItsLastResultsIsTheReferences) {
  for (const bool all : {false, true}) {
    const Graph graph = parse_graph(
        std::string("graph (%x: f32[20]) {\n%y") + (all ? ", %s, %z" : "") + " = dynamic_quantize (%x)\nreturn %y\n}",
        operators());
    const SymbolBindings symbols;
    EXPECT_EQ(backend()->tactics({graph, graph.nodes[0], symbols}).size(), all ? 2U : 1U);  // the reference is one
  }
}

}  // namespace
}  // namespace camshaft::cpu::integer_matmul_test
