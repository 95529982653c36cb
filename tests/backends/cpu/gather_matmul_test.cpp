#include "ir/ops/gather_matmul.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "reference/random_gather_matmul.h"

namespace camshaft::cpu::gather_matmul_test {
namespace {

constexpr DType matrix_types[] = {DType::f32, DType::f16, DType::bf16};

NodeTest test_of(std::vector<Tensor> inputs) {
  return {ops::GatherMatMul{}, std::move(inputs), {}, "gather_matmul", 4e-6};
}

TEST(GatherMatMul, ShapesWithTails) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType type : matrix_types)
      for (const int64_t out : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129})
        for (const int64_t in : {1, 3, 4, 5, 16, 67}) {
          const GatheredSizes sizes{random.integer(1, 40), in, out, random.integer(1, 4)};
          const DType index = random.integer(0, 1) == 0 ? DType::i32 : DType::i64;
          test_of(random_gathered(random, sizes, DType::f32, index, type))
              .check(static_cast<int>(random.integer(1, 3)));
          if (testing::Test::HasFailure()) return;
        }
  });
}

TEST(GatherMatMul, NothingToDo) {
  Random random = test_random();
  for_each_target([&] {
    for (const GatheredSizes& sizes : {GatheredSizes{0, 4, 4, 2}, GatheredSizes{3, 0, 4, 2}, GatheredSizes{3, 4, 0, 2},
                                       GatheredSizes{3, 4, 4, 0}, GatheredSizes{0, 0, 0, 0}})
      test_of(random_gathered(random, sizes, DType::f32, DType::i32, DType::f32)).check(2);
  });
}

TEST(GatherMatMul, NumbersThatAreNone) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType type : matrix_types)
      for (int round = 0; round < 30; ++round) {
        const GatheredSizes sizes{random.integer(1, 20), random.integer(1, 40), random.integer(1, 80),
                                  random.integer(1, 3)};
        test_of(random_gathered(random, sizes, DType::f32, DType::i32, type, true)).check(2);
        if (testing::Test::HasFailure()) return;
      }
  });
}

// Sums and updates as large as models have them, whose work is shared out.
TEST(GatherMatMul, ManyThreads) {
  Random random = test_random();
  for (const GatheredSizes& sizes : {GatheredSizes{70, 700, 16, 5}, GatheredSizes{70, 16, 1500, 5}})
    for (const int threads : {1, 2, 5})
      test_of(random_gathered(random, sizes, DType::f32, DType::i32, DType::f16)).check(threads);
}

// What is beside a row, and how many threads there are, leaves its result as it is, bit by bit.
TEST(GatherMatMul, ARowDoesNotDependOnOthers) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 30; ++round) {
      const GatheredSizes sizes{random.integer(2, 40), random.integer(1, 300), random.integer(1, 90), 3};
      const std::vector<Tensor> all = random_gathered(random, sizes, DType::f32, DType::i32, DType::f32);
      const Tensor together = test_of(all).run(3)[0];
      const int64_t row = random.integer(0, sizes.rows - 1);
      std::vector<Tensor> one = all;
      one[0] = Tensor(DType::f32, {1, sizes.in});
      std::copy_n(all[0].as<float>() + row * sizes.in, sizes.in, one[0].as_mutable<float>());
      one[1] = Tensor::of<int32_t>(DType::i32, {1}, {all[1].as<int32_t>()[row]});
      const Tensor alone = test_of(one).run(1)[0];
      ASSERT_EQ(0, std::memcmp(alone.data(), together.as<float>() + row * sizes.out, alone.bytes()))
          << sizes.rows << " " << sizes.in << " " << sizes.out;
    }
  });
}

TEST(GatherMatMul, OtherTypesAreTheReferences) {
  Random random = test_random();
  const std::vector<Tensor> inputs = random_gathered(random, {3, 4, 5, 2}, DType::f64, DType::i64, DType::f64);
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& t : inputs)
    ids.push_back(graph.add_input("x", {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
  graph.add_node(ops::GatherMatMul{}, ids, {"y"}, {}, {});
  const SymbolBindings symbols;
  for (const Tactic& tactic : backend()->tactics({graph, graph.nodes.back(), symbols}))
    EXPECT_EQ(tactic.name, "reference");
}

}  // namespace
}  // namespace camshaft::cpu::gather_matmul_test
