// Matrix products, convolutions and attention of operands rounded to bf16, through the CPU backend: held to the
// reference evaluation of operands that are bf16 already, where rounding changes nothing.
#include <gtest/gtest.h>

#include "backends/cpu/conv_problem.h"
#include "backends/cpu/each_product_of_pairs.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "base/thread_pool.h"
#include "ir/ops/attention.h"
#include "ir/ops/contract.h"

namespace camshaft::cpu::bf16_products_test {
namespace {

constexpr double kSums = 1e-5;     // f32 sums in another order
constexpr double kRounded = 2e-2;  // operands off by 2^-9 each, of which sums leave most

Tensor rounded(const Tensor& t) {
  if (!t.defined()) return t;
  Tensor out(DType::f32, t.dims());
  for (int64_t i = 0; i < t.size(); ++i) out.as_mutable<float>()[i] = to_float(to_bfloat(t.as<float>()[i]));
  return out;
}

NodeTest matmul(const Tensor& x, const Tensor& w, bool transposed = false, double tolerance = kSums) {
  return {ops::MatMul{.transpose_b = transposed, .rounding = ops::Rounding::bf16}, {x, w}, {1}, "gemm_bf16", tolerance};
}

/// Of heads side by side in the rows of q, k and v.
NodeTest attention(const Dims& dims, std::vector<Tensor> operands, double tolerance) {
  const int64_t queries = dims[0], keys = dims[1], heads = dims[2], size = dims[3], row = heads * size;
  ops::Attention op;
  op.outer = {heads}, op.queries = {queries}, op.keys = {keys};
  op.size = op.value_size = size;
  op.query = op.key = op.value = op.result = {0, size, row, 1};
  op.scale = 0.3;
  op.shape = {queries, row};
  op.rounding = ops::Rounding::bf16;
  return {op, std::move(operands), {}, "attention_bf16", tolerance};
}

/// The first operand is an input, the others are constants.
bool has_tactic(const Op& op, const std::vector<Tensor>& operands, const std::string& name) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& t : operands) {
    const std::string value = "v" + std::to_string(ids.size());
    ids.push_back(ids.empty() ? graph.add_input(value, {t.dtype(), Shape(t.dims().begin(), t.dims().end())})
                              : graph.add_constant(value, t));
  }
  graph.add_node(op, ids, {"y"});
  const SymbolBindings symbols;
  for (const Tactic& t : backend()->tactics({graph, graph.nodes.back(), symbols}))
    if (t.name == name) return true;
  return false;
}

/// Runs the body on instruction sets that have pairs.
template <class Body>
void for_targets_with_pairs(Body&& body) {
  bool any = false;
  for_each_target([&] {
    if (!has_bf16_pairs()) return;
    any = true;
    body();
  });
  if (!any) GTEST_SKIP() << "this machine has no AVX512_BF16";
}

TEST(Bf16Products, AreOfferedWhereOperatorAndMachineAllow) {
  RandomData data;
  const Tensor x = floats(data, {4, 6}), w = floats(data, {6, 8});
  const auto check = [&] {
    for (const ops::Rounding rounding : {ops::Rounding::none, ops::Rounding::tf32, ops::Rounding::bf16}) {
      const bool rounds = rounding == ops::Rounding::bf16;
      EXPECT_EQ(has_tactic(ops::MatMul{.rounding = rounding}, {x, w}, "gemm_bf16"), rounds && has_bf16_products());
      EXPECT_TRUE(has_tactic(ops::MatMul{.rounding = rounding}, {x, w}, "gemm"));
      const NodeTest a = attention({4, 4, 2, 3}, {x, x, x}, 0);
      ops::Attention op = *a.op.as<ops::Attention>();
      op.rounding = rounding;
      EXPECT_EQ(has_tactic(op, a.inputs, "attention_bf16"), rounds && has_bf16_pairs());
      EXPECT_TRUE(has_tactic(op, a.inputs, "attention"));
    }
    EXPECT_EQ(backend()->gains_from_rounding(ops::Rounding::bf16), has_bf16_products());
  };
  for_each_target(check);
  for_each_product_of_pairs(check);
}

TEST(Bf16Products, RowsAreRoundedToNearestFromAnyPitch) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 200; ++round) {
      const int64_t rows = data.integer(0, 40), k = data.integer(1, round % 10 == 0 ? 5000 : 80);
      const int64_t ld = k + (data.coin() ? data.integer(0, 3) : 0);
      Tensor x = floats(data, {rows, ld});
      if (x.size() > 0)
        for (const float special : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(),
                                    std::numeric_limits<float>::max(), 1.00390625F, 1.01171875F, -0.0F})
          x.as_mutable<float>()[data.integer(0, x.size() - 1)] = special;
      x = guarded(x);
      const int64_t words = pairs_of(k);
      std::vector<float> pairs(static_cast<size_t>(rows * words + 1), -77.0F);
      ThreadPool pool(1 + round % 3);
      round_rows(x.as<float>(), ld, rows, k, pairs.data(), pool);
      EXPECT_EQ(pairs.back(), -77.0F);
      for (int64_t i = 0; i < rows * words; ++i) {
        const auto word = std::bit_cast<uint32_t>(pairs[static_cast<size_t>(i)]);
        for (const int64_t half : {0, 1}) {
          const int64_t at = 2 * (i % words) + half;
          const float from = at < k ? x.as<float>()[i / words * ld + at] : 0.0F;
          const float got = std::bit_cast<float>(half ? word & 0xffff0000U : word << 16);
          const float wanted = to_float(to_bfloat(from));
          ASSERT_TRUE(std::isnan(from) ? std::isnan(got) : got == wanted) << got << " for " << from << " k=" << k;
        }
      }
    }
  });
}

TEST(Bf16Products, MatrixTailsAndThreads) {
  RandomData data;
  for_each_product_of_pairs([&] {
    const auto check = [&](int64_t m, int64_t n, int64_t k, int threads) {
      const bool transposed = data.coin();
      const Tensor x = rounded(floats(data, {m, k}));
      const Tensor w = rounded(floats(data, transposed ? Dims{n, k} : Dims{k, n}));
      matmul(x, w, transposed).check(threads);
    };
    for (int64_t m = 1; m <= 21; ++m) check(m, data.integer(1, 200), data.integer(1, 20), 1);
    for (int64_t n = 1; n <= 200; n += data.integer(1, 5)) check(7, n, data.integer(1, 6), 1);
    for (int round = 0; round < 40; ++round)
      check(round % 4 == 0 ? 1 : data.integer(1, 230), data.integer(1, 300), data.integer(0, 900), 1 + round % 3);
    check(530, 200, 1701, 2);
    for (const int64_t m : {0, 3}) check(m, m == 0 ? 5 : 0, 4, 2);
  });
}

TEST(Bf16Products, RoundBothOperands) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 10; ++round) {
      const int64_t m = data.integer(1, 30), n = data.integer(1, 90), k = data.integer(1, 300);
      const Tensor x = floats(data, {m, k}), w = floats(data, {k, n});
      matmul(x, w, false, kRounded).check(2);
      // And not less: it is what the rounded operands give.
      const Tensor given = matmul(x, w).run(1).at(0), expected = matmul(rounded(x), rounded(w)).run(1).at(0);
      EXPECT_TRUE(given == expected);
    }
  });
}

TEST(Bf16Products, SpecialsReachTheirRowsAndColumnsOnly) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (const float special : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
      for (int round = 0; round < 12; ++round) {
        Tensor x = rounded(floats(data, {data.integer(1, 20), data.integer(1, 70)}));
        Tensor w = rounded(floats(data, {x.dims()[1], data.integer(1, 90)}));
        x.as_mutable<float>()[data.integer(0, x.size() - 1)] = special;
        if (data.coin()) w.as_mutable<float>()[data.integer(0, w.size() - 1)] = -special;
        matmul(x, w).check(1 + round % 2);
      }
  });
}

TEST(Bf16Products, SubnormalOperandsCountAsZero) {
  for_each_product_of_pairs([&] {
    Tensor x(DType::f32, {2, 2}), w(DType::f32, {2, 1});
    for (int i = 0; i < 4; ++i) x.as_mutable<float>()[i] = i % 2 == 0 ? 0x1p-130F : 1.0F;
    w.as_mutable<float>()[0] = 0x1p120F;
    w.as_mutable<float>()[1] = 2;
    const Tensor y = matmul(x, w).run(1).at(0);
    EXPECT_EQ(y.as<float>()[0], 2.0F);
    EXPECT_EQ(y.as<float>()[1], 2.0F);
  });
}

TEST(Bf16Products, ThreadsChangeNothing) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 20; ++round) {
      const int64_t m = round % 2 == 0 ? 1 : data.integer(2, 40), n = data.integer(1, 700), k = data.integer(1, 900);
      const NodeTest test = matmul(floats(data, {m, k}), floats(data, {k, n}));
      const Tensor expected = test.run(1).at(0);
      for (const int threads : {2, 3, 5}) EXPECT_TRUE(test.run(threads).at(0) == expected) << m << "x" << n << "x" << k;
    }
  });
}

ConvProblem random_convolution(RandomData& data, int round) {
  const int64_t groups = round % 4 == 0 ? data.integer(2, 4) : 1;
  const int64_t inputs = groups > 1 ? 2 * data.integer(1, 10) : data.integer(1, 40);
  ConvProblem p = random_problem(data, static_cast<size_t>(1 + round % 3), groups, inputs,
                                 data.integer(1, round % 7 == 0 ? 90 : 20));
  p.op.rounding = ops::Rounding::bf16;
  return p;
}

TEST(Bf16Products, Convolutions) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 80; ++round) {
      const ConvProblem p = random_convolution(data, round);
      NodeTest(p.op, {rounded(p.x), rounded(p.weights), p.bias}, {1, 2}, "conv_bf16", kSums).check(1 + round % 3);
    }
  });
}

TEST(Bf16Products, GroupsOfOddChannelsAreLeftToF32) {
  RandomData data;
  ConvProblem p = random_problem(data, 2, 2, 3, 8);
  p.op.rounding = ops::Rounding::bf16;
  EXPECT_FALSE(has_tactic(p.op, {p.x, p.weights}, "conv_bf16"));
  EXPECT_TRUE(has_tactic(p.op, {p.x, p.weights}, "conv"));
}

TEST(Bf16Products, Attention) {
  RandomData data;
  for_targets_with_pairs([&] {
    for (int round = 0; round < 20; ++round) {
      const Dims dims{data.integer(1, 70), data.integer(1, round % 5 == 0 ? 1300 : 200), data.integer(1, 3),
                      data.integer(1, 70)};
      const int64_t row = dims[2] * dims[3];
      std::vector<Tensor> operands{floats(data, {dims[0], row}), floats(data, {dims[1], row}),
                                   floats(data, {dims[1], row})};
      const NodeTest test = attention(dims, operands, kRounded);
      test.check(1 + round % 3);
      const Tensor given = test.run(1).at(0);
      EXPECT_TRUE(test.run(2 + round % 3).at(0) == given) << "the number of threads changes results";
      std::transform(operands.begin(), operands.end(), operands.begin(), rounded);
      if (dims[0] < 7) continue;  // keys may be read where they are, in f32
      EXPECT_TRUE(attention(dims, operands, 0).run(1).at(0) == given) << "operands are not all that is rounded";
    }
  });
}

// What an engine stores: another machine gets the rounded weights back.
TEST(Bf16Products, PackedWeightsAreRecoveredAsBf16) {
  RandomData data;
  for_each_product_of_pairs([&] {
    for (int round = 0; round < 20; ++round) {
      Op op = ops::MatMul{.transpose_b = data.coin(), .rounding = ops::Rounding::bf16};
      const int64_t k = data.integer(1, 30), n = data.integer(1, 150);
      Tensor w = floats(data, op.as<ops::MatMul>()->transpose_b ? Dims{n, k} : Dims{k, n}), x = floats(data, {3, k});
      if (round % 2 == 1) {
        const ConvProblem p = random_convolution(data, round);
        op = p.op;
        w = p.weights;
        x = p.x;
      }
      const std::string name = round % 2 == 1 ? "conv_bf16" : "gemm_bf16";
      Graph graph;
      const ValueId input = graph.add_input("x", {x.dtype(), Shape(x.dims().begin(), x.dims().end())});
      graph.add_node(op, {input, graph.add_constant("w", w)}, {"y"});
      const SymbolBindings symbols;
      const RegionView region{graph, graph.nodes.back(), symbols};
      PackedConstants packed;
      backend()->compile(region, Tactic{.name = name}, packed);
      const auto all = packed.all();
      ASSERT_EQ(all.size(), 1U);
      ASSERT_TRUE(backend()->can_unpack(all[0]->layout));
      const Tensor raw = backend()->unpack(*all[0], DType::f32, w.dims());
      ASSERT_EQ(raw.dtype(), DType::bf16);
      EXPECT_EQ(raw.to_doubles(), rounded(w).to_doubles());
      Dims other = w.dims();
      ++other[0];
      EXPECT_THROW(backend()->unpack(*all[0], DType::f32, other), Error);
      // Through an engine's constants, in the type that is asked for.
      packed.set_unpack([](const PackedConstant& p, DType d, const Dims& s) { return backend()->unpack(p, d, s); });
      EXPECT_TRUE(packed.unpack("w", Tensor::elided(DType::f32, w.dims())) == rounded(w));
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::bf16_products_test
