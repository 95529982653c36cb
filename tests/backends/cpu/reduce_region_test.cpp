// Reductions with pointwise steps before and behind, against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/region.h"
#include "reference/random_reduction.h"

namespace camshaft::cpu::reduce_region_test {
namespace {

using F = ScalarFunction;
using ops::ReduceKind;

NodeTest test_of(ReductionSteps steps, double tolerance) {
  NodeTest test(ops::Region{ops::RegionKind::reduce}, steps.operands, {}, "reduce", tolerance);
  test.bodies = {steps.finish()};
  return test;
}

NodeTest test_of(const ReductionSteps& steps) {
  return test_of(steps, steps.tolerance);
}

TEST(ReduceRegion, RandomSteps) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 120; ++round) {
      const int64_t rank = random.integer(1, 5);
      Dims dims;
      std::vector<int64_t> axes;
      for (int64_t d = 0; d < rank; ++d) {
        dims.push_back(random.integer(1, rank == 1 ? 40000 : rank == 2 ? 300 : rank == 3 ? 40 : 9));
        if (random.integer(0, 30) == 0) dims.back() = 0;
        if (random.integer(0, 1)) axes.push_back(d);
      }
      if (axes.empty()) axes.push_back(random.integer(0, rank - 1));
      test_of(random_reduction(DType::f32, dims, axes, random)).check(1 + round % 3);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

// Rows beyond a tile, columns beyond a block, few results that threads share, and many small ones.
TEST(ReduceRegion, LayoutsOfEverySize) {
  Random random = test_random();
  struct Case {
    Dims dims;
    std::vector<int64_t> axes;
  };
  for_each_target([&] {
    for (const Case& c :
         {Case{{3, 9000}, {1}}, Case{{90'000}, {0}}, Case{{2, 128, 384}, {1}}, Case{{7, 7, 1792}, {0, 1}},
          Case{{1, 2600, 24}, {1}}, Case{{4, 30, 17}, {1}}, Case{{500, 4, 3}, {1}}, Case{{700, 5}, {1}},
          Case{{3, 40, 5, 6}, {0, 2}}, Case{{2, 5, 1100}, {0}}, Case{{33, 4, 49}, {0, 2}}}) {
      for (int round = 0; round < 4; ++round) {
        const NodeTest test = test_of(random_reduction(DType::f32, c.dims, c.axes, random));
        for (const int threads : {1, 2, 5}) test.check(threads);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

// Short rows over each other are computed several at once: layers of layers that a tile ends within, parts that threads
// share, rows as long as that and one longer, and rows that are not next to each other.
TEST(ReduceRegion, LayersOfShortRows) {
  Random random = test_random();
  struct Case {
    Dims dims;
    std::vector<int64_t> axes;
  };
  for_each_target([&] {
    for (const DType dtype : {DType::f32, DType::f64, DType::i32})
      for (const Case& c :
           {Case{{1560, 7, 2, 2}, {0, 1, 3}}, Case{{2, 120, 2, 6}, {1, 3}}, Case{{3, 70, 3, 20, 5}, {1, 3}},
            Case{{2, 9, 5, 4, 3}, {0, 1, 3}}, Case{{300, 7, 128}, {0, 2}}, Case{{40, 7, 129}, {0, 2}},
            Case{{50, 20, 64}, {0, 2}}, Case{{9, 3, 30, 2, 4, 3}, {0, 2, 4}}}) {
        for (int round = 0; round < 2; ++round) {
          const NodeTest test = test_of(random_reduction(dtype, c.dims, c.axes, random));
          for (const int threads : {1, 3}) test.check(threads);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
  });
}

TEST(ReduceRegion, OtherTypes) {
  Random random = test_random();
  for (const DType dtype : {DType::f64, DType::i64, DType::i32, DType::u8, DType::i16})
    for (int round = 0; round < 20; ++round) {
      const Dims dims = {random.integer(1, 9), random.integer(1, 60), random.integer(1, 9)};
      const std::vector<int64_t> axes = round % 2 ? std::vector<int64_t>{1} : std::vector<int64_t>{0, 2};
      test_of(random_reduction(dtype, dims, axes, random)).check(1 + round % 2);
    }
}

// What is not 0 is true, whatever byte it is.
TEST(ReduceRegion, ExtremesOfBooleans) {
  Random random = test_random();
  for_each_target([&] {
    for (const ReduceKind kind : {ReduceKind::max, ReduceKind::min})
      for (const int64_t size : {1, 3, 4, 17, 64, 65, 1000})
        for (const int64_t axis : {0, 1}) {
          Tensor x = random_tensor(random, DType::boolean, {40, size});
          auto* bytes = reinterpret_cast<uint8_t*>(x.mutable_data());
          for (int64_t i = 0; i < x.size(); ++i) {
            const int64_t line = axis == 0 ? i % size : i / size;
            const bool is_even = line % 3 == 2 ? random.integer(0, 1) == 0 : line % 3 == 0;  // and mixed ones
            bytes[i] = is_even ? 0 : static_cast<uint8_t>(random.integer(0, 9) ? 1 : 1 << random.integer(0, 7));
          }
          ReductionSteps region(DType::u8);
          region.last = region.operand(x);
          region.cast();
          region.reduce(kind, {axis}, false);
          const NodeTest test = test_of(region);
          for (const int threads : {1, 3}) test.check(threads);
          if (testing::Test::HasFatalFailure()) return;
        }
  });
}

// As sentence encoders do: a mask of integers, whose sum divides.
TEST(ReduceRegion, MaskedMean) {
  Random random = test_random();
  for_each_target([&] {
    for (const int64_t size : {1, 17, 384}) {
      ReductionSteps region(DType::f32);
      const ValueId x = region.operand(random_tensor(random, DType::f32, {3, 50, size}));
      region.last = region.operand(random_tensor(random, DType::boolean, {3, 50, 1}));
      region.cast();
      region.apply(F::mul, {x, region.last});
      region.reduce(ReduceKind::sum, {1}, false);
      region.apply(F::div, {region.last, region.operand(number_of(DType::f32, 17))});
      const NodeTest test = test_of(region, 1e-6);
      for (const int threads : {1, 3}) test.check(threads);
    }
  });
}

// All pairs of rows, those that a kernel of their own takes and those that it does not: tails of rows, of vectors and
// of blocks of elements, infinities and NaN, either order of the operands, and steps behind that read another tensor.
TEST(ReduceRegion, SquaredDistancesOfRows) {
  Random random = test_random();
  struct Case {
    int64_t rows, columns, length;
  };
  for_each_target([&] {
    for (const DType dtype : {DType::f32, DType::f64})
      for (const Case& c : {Case{8, 8, 1}, Case{9, 33, 7}, Case{100, 47, 32}, Case{13, 70, 1025}, Case{8, 9, 3000},
                            Case{7, 40, 20}, Case{40, 7, 20}, Case{12, 11, 0}, Case{0, 11, 5}, Case{300, 1001, 3},
                            Case{random.integer(1, 60), random.integer(1, 90), random.integer(1, 70)}}) {
        for (int round = 0; round < 4; ++round) {
          ReductionSteps region(dtype);
          Tensor a = random_tensor(random, dtype, {c.rows, 1, c.length}),
                 b = random_tensor(random, dtype, {1, c.columns, c.length});
          const auto put = [&](Tensor& t, int64_t i, double x) {
            if (i < t.size()) ops::store_elements(dtype, t.mutable_data(), i, 1, 1, &x);
          };
          if (round == 3) {
            put(a, 1, INFINITY);
            put(b, 2, INFINITY);
            put(b, c.length * 3, NAN);
          }
          const ValueId x = region.operand(std::move(a)), y = region.operand(std::move(b));
          region.apply(F::sub, round % 2 ? std::vector<ValueId>{y, x} : std::vector<ValueId>{x, y});
          region.reduce(ReduceKind::sum_squares, {2}, round == 2);
          if (round == 1) region.apply(F::sqrt, {region.last});
          if (round == 2)
            region.apply(F::add, {region.last, region.operand(random_tensor(random, dtype, {1, c.columns, 1}))});
          const NodeTest test = test_of(region, dtype == DType::f32 ? 3e-6 : 1e-12);
          for (const int threads : {1, 3}) test.check(threads);
          if (testing::Test::HasFatalFailure()) return;
          if (c.rows > 0 && round < 3) {
            EXPECT_TRUE(test.run(1)[0] == test.run(4)[0]);
          }
        }
      }
  });
}

// Points that are close to each other, far away from 0: a product and two norms would have no digit right.
TEST(ReduceRegion, DistancesOfClosePoints) {
  Random random = test_random();
  Tensor a(DType::f32, {16, 1, 8}), b(DType::f32, {1, 16, 8});
  for (int64_t i = 0; i < a.size(); ++i) {
    a.as_mutable<float>()[i] = 1000 + static_cast<float>(random.integer(0, 8)) / 1024;
    b.as_mutable<float>()[i] = 1000 + static_cast<float>(random.integer(0, 8)) / 1024;
  }
  for_each_target([&] {
    ReductionSteps region(DType::f32);
    const ValueId x = region.operand(a), y = region.operand(b);
    region.apply(F::sub, {x, y});
    region.reduce(ReduceKind::sum_squares, {2}, false);
    test_of(region, 0).check(1);  // differences and sums are exact
  });
}

// Sums that differ with the number of threads would not be found again.
TEST(ReduceRegion, WhoeverComputesItIsTheSame) {
  Random random = test_random();
  for (const Dims& dims : {Dims{400, 384}, Dims{200'000, 1}, Dims{49, 1792}}) {
    ReductionSteps region(DType::f32);
    region.last = region.operand(random_tensor(random, DType::f32, dims));
    region.apply(F::mul, {region.last, region.last});
    region.reduce(ReduceKind::sum, {0});
    const NodeTest test = test_of(region, 1e-6);
    EXPECT_TRUE(test.run(1)[0] == test.run(4)[0]);
  }
}

// Operands that are parts of wider rows are read where they are.
TEST(ReduceRegion, ReadsSlices) {
  Random random = test_random();
  const int64_t rows = 30, width = 20, pitch = 33;
  ReductionSteps region(DType::f32);
  region.last = region.operand(random_tensor(random, DType::f32, {rows, width}));
  region.apply(F::mul, {region.last, region.last});
  region.reduce(ReduceKind::sum, {0}, false);
  region.apply(F::add, {region.last, region.operand(random_tensor(random, DType::f32, {width}))});
  const NodeTest test = test_of(region, 1e-6);

  Graph graph;
  std::vector<ValueId> inputs;
  for (const Tensor& t : region.operands)
    inputs.push_back(
        graph.add_input("x" + std::to_string(inputs.size()), {DType::f32, Shape(t.dims().begin(), t.dims().end())}));
  graph.add_node(ops::Region{ops::RegionKind::reduce}, inputs, {"y"}, {}, {test.bodies[0]});
  const SymbolBindings symbols;
  PackedConstants packed;
  const RegionView view{graph, graph.nodes[0], symbols};
  const auto tactics = backend()->tactics(view);
  ASSERT_EQ(tactics[0].name, "reduce");
  const auto kernel = backend()->compile(view, tactics[0], packed);
  ASSERT_TRUE(kernel->reads_slices(0));
  std::vector<float> wide(static_cast<size_t>(rows * pitch), 1e9F), y(static_cast<size_t>(width));
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(region.operands[0].as<float>() + r * width, width, wide.begin() + r * pitch);
  KernelShapes shapes{{{DType::f32, {rows, width}, pitch}, {DType::f32, {width}}}, {{DType::f32, {width}}}, &symbols};
  const auto launch = kernel->prepare(shapes);
  ThreadPool pool(1);
  const std::byte* in[] = {reinterpret_cast<const std::byte*>(wide.data()), region.operands[1].data()};
  std::byte* out[] = {reinterpret_cast<std::byte*>(y.data())};
  std::vector<std::byte> workspace(launch->workspace_bytes());
  launch->run({in, out, workspace.data(), pool});
  const Tensor dense = test.run(1)[0];
  for (int64_t i = 0; i < width; ++i) EXPECT_EQ(y[static_cast<size_t>(i)], dense.as<float>()[i]);
}

// Rows of every length up to a few vectors, of every integer type: sums wrap, and numbers keep their signs.
TEST(ReduceRegion, IntegersOfEveryLength) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType dtype :
         {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64})
      for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::mean, ReduceKind::max, ReduceKind::min,
                                    ReduceKind::prod, ReduceKind::sum_squares, ReduceKind::sum_abs})
        for (const int64_t n : {31, 32, 33, 48, 63, 64, 95, 96, 128, 255, 256, 257, 512})
          NodeTest(ops::Reduce{kind, {1}, true}, {random_tensor(random, dtype, {2, n})}, {}, "reduce").check(1);
  });
}

}  // namespace
}  // namespace camshaft::cpu::reduce_region_test
