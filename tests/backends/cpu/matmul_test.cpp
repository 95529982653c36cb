// Matrix products of regions: what their epilogues read.
#include "backends/cpu/each_target.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::matmul_test {
namespace {

// The kernel has its weights packed, and yet somebody reads them as they were.
TEST(MatMul, WeightsThatTheEpilogueReadsToo) {
  RandomData data;
  for_each_target([&] {
    for (const ScalarFunction function : {ScalarFunction::add, ScalarFunction::max})
      for (const int64_t rows : {3, 17}) {
        const Tensor x = floats(data, {rows, 3, 3}), w = floats(data, {3, 17});
        const auto type = [](const Tensor& t) {
          return TensorType{t.dtype(), Shape(t.dims().begin(), t.dims().end())};
        };
        Graph body;
        const ValueId a = body.add_input("x", type(x)), b = body.add_input("w", type(w));
        const ValueId c = body.add(ops::MatMul{}, {a, b}, "c");
        body.add_output("y", body.add(ops::Pointwise{function}, {b, c}, "p"));
        NodeTest test(ops::Region{ops::RegionKind::contract}, {x, w}, {1}, "gemm", 1e-5);
        test.bodies = {body};
        test.check(2);
      }
  });
}

// Few products an element, by matrices that are constants and others: blocks of rows, tails of columns, threads, and a
// number a row or a column behind them.
TEST(MatMul, FewProducts) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 48; ++round) {
      const int64_t m = data.integer(1, round % 4 ? 150 : 9), n = data.integer(round % 5 ? 64 : 1, 300);
      const int64_t k = data.integer(0, round % 5 ? 9 : 18), axes = data.integer(0, 1);
      const Tensor x = floats(data, axes ? Dims{2, m, k} : Dims{m, k}), w = floats(data, {k, n});
      const Tensor added = floats(data, round % 2 ? Dims{m, 1} : Dims{n});
      const auto type = [](const Tensor& t) { return TensorType{t.dtype(), Shape(t.dims().begin(), t.dims().end())}; };
      Graph body;
      const ValueId a = body.add_input("x", type(x)), b = body.add_input("w", type(w));
      const ValueId r = body.add_input("r", type(added)), c = body.add(ops::MatMul{}, {a, b}, "c");
      body.add_output("y", body.add(ops::Pointwise{ScalarFunction::add}, {c, r}, "p"));
      const bool constant = round % 3 != 0;
      NodeTest test(ops::Region{ops::RegionKind::contract}, {x, w, added},
                    constant ? std::vector<size_t>{1} : std::vector<size_t>{}, constant ? "gemm" : "batch_gemm", 1e-5);
      test.bodies = {body};
      test.check(1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// A constant right operand beside a left one whose columns are contiguous: alone, in batches and of every few sizes.
TEST(MatMul, TransposedLeftOperands) {
  RandomData data;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const int64_t m = data.integer(1, round % 5 ? 20 : 150), n = data.integer(1, round % 3 ? 12 : 70),
                    k = data.integer(0, round % 4 ? 20 : 140);
      Dims a = {k, m};
      for (int64_t axes = data.integer(0, 2); axes > 0; --axes) a.insert(a.begin(), data.integer(0, 3));
      const bool transposed = data.integer(0, 1) == 1;
      NodeTest(ops::MatMul{true, transposed}, {floats(data, a), floats(data, transposed ? Dims{n, k} : Dims{k, n})},
               {1}, "gemm", 1e-5)
          .check(1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::matmul_test
