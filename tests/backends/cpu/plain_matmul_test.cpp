// Products of f64 and of wide integers: the bits of the reference evaluation.
#include "backends/cpu/run_node.h"
#include "base/cancellation_points.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "reference/contract/plain_product.h"
#include "reference/random_tensor.h"

namespace camshaft::cpu::plain_matmul_test {
namespace {

constexpr DType types[] = {DType::f64, DType::i32, DType::u32, DType::i64, DType::u64};

struct Problem {
  ops::MatMul op;
  DType dtype;
  std::vector<Tensor> operands;
  Dims result;
};

// Small and large, alone and in stacks that broadcast, of operands that lie either way; now and then of nothing.
Problem random_problem(Random& random, int round) {
  const auto size = [&](int64_t most) { return random.integer(0, 25) ? random.integer(1, most) : 0; };
  const bool large = round % 8 == 0;
  const int64_t m = size(large ? 400 : 40), n = size(large ? 400 : 70), k = size(large ? 300 : 70);
  Problem p{{}, types[random.integer(0, 4)], {}, {}};
  p.op.transpose_a = random.integer(0, 1) == 1;
  p.op.transpose_b = random.integer(0, 1) == 1;
  Dims a, b;
  for (int64_t axes = large ? 0 : random.integer(0, 2); axes > 0; --axes) {
    const int64_t batch = random.integer(1, 5), shared = random.integer(0, 3);
    a.push_back(shared == 1 ? 1 : batch);
    b.push_back(shared == 2 ? 1 : batch);
    p.result.push_back(std::max(a.back(), b.back()));
  }
  for (const int64_t d : p.op.transpose_a ? Dims{k, m} : Dims{m, k}) a.push_back(d);
  for (const int64_t d : p.op.transpose_b ? Dims{n, k} : Dims{k, n}) b.push_back(d);
  p.result.push_back(m);
  p.result.push_back(n);
  p.operands = {random_tensor(random, p.dtype, a), random_tensor(random, p.dtype, b)};
  return p;
}

TEST(PlainMatMul, AsTheReference) {
  Random random = test_random();
  for (int round = 0; round < 160; ++round) {
    Problem p = random_problem(random, round);
    if (p.dtype == DType::f64 && round % 5 == 0 && p.operands[0].size() > 0)
      p.operands[0].as_mutable<double>()[0] = round % 2 ? std::nan("") : std::numeric_limits<double>::infinity();
    const std::vector<size_t> known = random.integer(0, 2) ? std::vector<size_t>{} : std::vector<size_t>{1};
    NodeTest(p.op, p.operands, known, "plain_matmul").check(static_cast<int>(random.integer(1, 4)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

// What follows reads the product, and one number a column.
TEST(PlainMatMul, WithWhatFollows) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    Problem p = random_problem(random, round);
    p.operands.push_back(random_tensor(random, p.dtype, {p.result.back()}));
    Graph body;
    std::vector<ValueId> ids;
    for (const Tensor& t : p.operands)
      ids.push_back(body.add_input("i", {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
    const ValueId product = body.add(p.op, {ids[0], ids[1]}, "c");
    const ValueId sum = body.add(ops::Pointwise{ScalarFunction::add}, {product, ids[2]}, "s");
    body.add_output("y", body.add(ops::Pointwise{ScalarFunction::max}, {sum, product}, "m"));
    NodeTest test(ops::Region{ops::RegionKind::contract}, p.operands, {}, "plain_matmul");
    test.bodies = {body};
    test.check(static_cast<int>(random.integer(1, 4)));
    if (testing::Test::HasFatalFailure()) return;
  }
}

ops::ProductStack stack_of(const ops::MatMul& op, int64_t m, int64_t k, int64_t n) {
  return ops::product_stack(op, op.transpose_a ? Dims{k, m} : Dims{m, k}, op.transpose_b ? Dims{n, k} : Dims{k, n});
}

// A transposed A by one column, and few rows by a large B, whose sums are made in parts: added in the order of k.
TEST(PlainMatMul, SumsInParts) {
  Random random = test_random();
  struct Sizes {
    int64_t m, k, n;
  };
  for (const auto& [m, k, n] : {Sizes{2500, 1900, 1}, {1, 1025, 1}, {31, 3000, 1}, {8, 70000, 130}}) {
    const ops::MatMul op{.transpose_a = n == 1};
    const Tensor a = random_tensor(random, DType::f64, op.transpose_a ? Dims{k, m} : Dims{m, k});
    const Tensor b = random_tensor(random, DType::f64, {k, n});
    std::vector<double> expected(static_cast<size_t>(m * n));
    for (int64_t p = 0; p < k; ++p)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double& sum = expected[static_cast<size_t>(i * n + j)];
          sum = std::fma(a.as<double>()[op.transpose_a ? p * m + i : i * k + p], b.as<double>()[p * n + j], sum);
        }
    for (const int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<double> out(expected.size());
      ops::plain_product(stack_of(op, m, k, n), DType::f64, a.as<double>(), b.as<double>(), out.data(), pool);
      EXPECT_TRUE(out == expected) << m << " x " << k << " x " << n << ", " << threads << " threads";
    }
  }
}

// What is counted is how often they ask, not time: each block is some hundredths of a second.
TEST(PlainMatMul, AskWithinOneLongBlock) {
  ThreadPool pool(1);
  const auto asked = [&](const ops::MatMul& op, int64_t m, int64_t k, int64_t n) {
    const std::vector<uint32_t> a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n));
    std::vector<uint32_t> out(static_cast<size_t>(m * n));
    const int64_t before = cancellation_points_passed();
    ops::plain_product(stack_of(op, m, k, n), DType::i32, a.data(), b.data(), out.data(), pool);
    return cancellation_points_passed() - before;
  };
  EXPECT_GE(asked({}, 8, 8000, 4100), 4);
  EXPECT_GE(asked({.transpose_b = true}, 4, 8000, 5000), 4);
}

// B is packed where more than a tile of rows read it and it is no part of a cache.
TEST(PlainMatMul, FewRowsByALargeMatrixPackIt) {
  const auto packs = [](int64_t m, int64_t n) {
    return ops::plain_product_bytes(stack_of({}, m, n, n), DType::f64, 1) > 0;
  };
  EXPECT_TRUE(packs(32, 2048));
  EXPECT_TRUE(packs(16, 4096));
  EXPECT_FALSE(packs(8, 4096));
  EXPECT_FALSE(packs(32, 1000));
}

TEST(PlainMatMul, SizesThatDoNotFitAreRefused) {
  const Tensor a(DType::f64, {2, 3}), b(DType::f64, {4, 2});
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f64, {Dim::symbol("n"), Dim::symbol("k")}});
  const ValueId w = graph.add_input("w", {DType::f64, {Dim::symbol("l"), Dim(2)}});
  graph.add_node(ops::MatMul{}, {x, w}, {"y"});
  const SymbolBindings symbols;
  const RegionView region{graph, graph.nodes.back(), symbols};
  const auto tactics = backend()->tactics(region);
  const auto found =
      std::find_if(tactics.begin(), tactics.end(), [](const Tactic& t) { return t.name == "plain_matmul"; });
  ASSERT_NE(found, tactics.end());
  PackedConstants packed;
  KernelShapes shapes;
  shapes.symbols = &symbols;
  shapes.threads = 1;
  shapes.inputs = {{DType::f64, a.dims()}, {DType::f64, b.dims()}};
  shapes.outputs = {{DType::f64, {2, 2}}};
  EXPECT_THROW(backend()->compile(region, *found, packed)->prepare(shapes), Error);
}

}  // namespace
}  // namespace camshaft::cpu::plain_matmul_test
