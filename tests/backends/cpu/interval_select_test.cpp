// Choices by column numbers as runs of rows: each test, either side, numbers beyond the columns, types, threads.
#include "backends/cpu/kernels/pointwise/interval_select.h"

#include <gtest/gtest.h>

#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft::cpu::interval_select_test {
namespace {

using F = ScalarFunction;

Tensor count_from(DType dtype, int64_t first, int64_t columns) {
  Tensor numbers(dtype, {columns});
  for (int64_t i = 0; i < columns; ++i) {
    if (dtype == DType::i32) numbers.as_mutable<int32_t>()[i] = static_cast<int32_t>(first + i);
    if (dtype == DType::i64) numbers.as_mutable<int64_t>()[i] = first + i;
  }
  return numbers;
}

// Around the columns, and as far away as the type goes.
Tensor row_numbers(DType dtype, const Dims& dims, int64_t first, int64_t columns) {
  RandomData random;
  Tensor rows(dtype, dims);
  for (int64_t i = 0; i < rows.size(); ++i) {
    const int64_t near = first + random.integer(-3, static_cast<int>(columns) + 3);
    if (dtype == DType::i32) {
      constexpr int32_t ends[] = {INT32_MIN, INT32_MAX};
      rows.as_mutable<int32_t>()[i] = i % 11 == 10 ? ends[i % 2] : static_cast<int32_t>(near);
    } else {
      constexpr int64_t ends[] = {INT64_MIN, INT64_MAX};
      rows.as_mutable<int64_t>()[i] = i % 11 == 10 ? ends[i % 2] : near;
    }
  }
  return rows;
}

struct Choice {
  F test = F::less;
  bool column_first = false, swaps = false, casts = false;
};

// select(test(row, column), x, 0), or the test as numbers of x's type.
NodeTest choose(const Choice& choice, const Tensor& rows, const Tensor& columns, const Tensor& x) {
  Graph body;
  const auto input = [&](const Tensor& t) {
    return body.add_input("i", {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  };
  const ValueId row = input(rows), column = input(columns);
  const auto tested = choice.column_first ? std::vector{column, row} : std::vector{row, column};
  const ValueId passes = body.add(ops::Pointwise{choice.test}, tested, "p");
  ValueId y = passes;
  if (choice.casts) {
    if (x.dtype() != DType::boolean) y = body.add(ops::Cast{x.dtype()}, {passes}, "y");
  } else {
    const ValueId from = input(x), zero = body.add_constant("z", Tensor(x.dtype(), {}));
    y = body.add(ops::Pointwise{F::select},
                 choice.swaps ? std::vector{passes, zero, from} : std::vector{passes, from, zero}, "y");
  }
  body.add_output("y", y);
  std::vector<Tensor> inputs{rows, columns};
  if (!choice.casts) inputs.push_back(x);
  NodeTest test(ops::Region{ops::RegionKind::pointwise}, inputs, {1}, "interval_select");
  test.bodies = {body};
  return test;
}

Tensor numbers_of(DType dtype, const Dims& dims) {
  RandomData random;
  Tensor x(dtype, dims);
  for (size_t i = 0; i < x.bytes(); ++i)
    x.mutable_data()[i] = static_cast<std::byte>(random.integer(0, dtype == DType::boolean ? 1 : 60));
  return x;
}

TEST(IntervalSelect, LikeTheReference) {
  for (const F function : {F::less, F::less_or_equal, F::equal})
    for (const bool column_first : {false, true})
      for (const bool swaps : {false, true})
        for (const DType numbers : {DType::i32, DType::i64})
          for (const Dims& dims : {Dims{1, 1}, Dims{7, 5}, Dims{2, 3, 33, 64}, Dims{60, 1000}, Dims{0, 4}}) {
            const int64_t columns = dims.back(), first = swaps ? -3 : 0;
            Dims row_dims = dims;
            row_dims.back() = 1;
            if (row_dims.size() > 2) row_dims[1] = 1;
            const Tensor rows = row_numbers(numbers, row_dims, first, columns);
            const NodeTest test = choose({function, column_first, swaps, false}, rows,
                                         count_from(numbers, first, columns), numbers_of(DType::f32, dims));
            test.check(1);
            test.check(3);
          }
}

TEST(IntervalSelect, OverWhatItChoosesFrom) {
  const Tensor rows = row_numbers(DType::i64, {40, 1}, 0, 100);
  for (const bool swaps : {false, true})
    for (const F function : {F::less, F::equal}) {
      NodeTest test = choose({function, false, swaps, false}, rows, count_from(DType::i64, 0, 100),
                             numbers_of(DType::f32, {40, 100}));
      test.over = 2;
      test.check(1);
      test.check(3);
    }
}

TEST(IntervalSelect, AllTypes) {
  const Tensor rows = row_numbers(DType::i64, {50, 1}, 0, 70), columns = count_from(DType::i64, 0, 70);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16,
                            DType::i8, DType::u8, DType::u16, DType::u32, DType::boolean})
    for (const F function : {F::less_or_equal, F::equal}) {
      SCOPED_TRACE(to_string(dtype));
      const Tensor x = numbers_of(dtype, {50, 70});
      choose({function, false, false, false}, rows, columns, x).check(2);
      choose({function, true, false, true}, rows, columns, x).check(2);
    }
}

// select(mask, x, 0) with a constant mask.
NodeTest masked(const Tensor& mask, const Tensor& x) {
  Graph body;
  const auto input = [&](const Tensor& t) {
    return body.add_input("i", {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  };
  const ValueId condition = input(mask), from = input(x), zero = body.add_constant("z", Tensor(x.dtype(), {}));
  body.add_output("y", body.add(ops::Pointwise{F::select}, {condition, from, zero}, "y"));
  NodeTest test(ops::Region{ops::RegionKind::pointwise}, {mask, x}, {0}, "interval_select");
  test.bodies = {body};
  return test;
}

TEST(IntervalSelect, MasksOfRuns) {
  for (const Dims& dims : {Dims{3, 5}, Dims{40, 33}, Dims{6, 1, 40}}) {
    RandomData random;
    Tensor mask(DType::boolean, dims);
    const int64_t columns = dims.back();
    for (int64_t r = 0; r < mask.size() / columns; ++r)
      for (int64_t c = random.integer(0, static_cast<int>(columns)); c < columns && random.integer(0, 9) > 0; ++c)
        mask.as_mutable<bool>()[r * columns + c] = true;
    Dims more = dims;
    if (more.size() == 3) more[1] = 4;
    more.insert(more.begin(), 2);
    for (const Dims& all : {dims, more})
      for (const DType dtype : {DType::f32, DType::u8}) {
        NodeTest test = masked(mask, numbers_of(dtype, all));
        test.check(1);
        test.check(3);
        test.over = 1;
        test.check(2);
      }
  }
}

bool is_offered(const NodeTest& test) {
  const SymbolBindings symbols;
  const Graph graph = test.graph_of_node();
  const auto tactics = backend()->tactics({graph, graph.nodes.back(), symbols});
  return std::any_of(tactics.begin(), tactics.end(), [](const Tactic& t) { return t.name == "interval_select"; });
}

TEST(IntervalSelect, NotOfOthers) {
  const Tensor rows = row_numbers(DType::i64, {8, 1}, 0, 9), x = numbers_of(DType::f32, {8, 9});
  EXPECT_TRUE(is_offered(choose({}, rows, count_from(DType::i64, 0, 9), x)));
  Tensor uneven = count_from(DType::i64, 0, 9);
  uneven.as_mutable<int64_t>()[4] = 7;
  EXPECT_FALSE(is_offered(choose({}, rows, uneven, x)));
  EXPECT_FALSE(is_offered(choose({}, row_numbers(DType::i64, {8, 9}, 0, 9), count_from(DType::i64, 0, 9), x)));
  Tensor mask(DType::boolean, {8, 9});
  EXPECT_TRUE(is_offered(masked(mask, x)));
  mask.as_mutable<bool>()[20] = mask.as_mutable<bool>()[22] = true;
  EXPECT_FALSE(is_offered(masked(mask, x)));
  EXPECT_FALSE(is_offered(masked(Tensor(DType::boolean, {8, 1}), x)));
}

// A large diagonal is filled as a whole.
TEST(IntervalSelect, LargeDiagonal) {
  constexpr int64_t side = 3000;
  std::vector<int64_t> rows(side);
  for (int64_t i = 0; i < side; ++i) rows[static_cast<size_t>(i)] = i - 2;
  IntervalSelect eye;
  eye.test = IntervalSelect::Test::equal;
  eye.columns = side;
  eye.dims = {side};
  eye.strides = {1};
  eye.width = 8;
  const double one = 1, zero = 0;
  std::vector<double> y(side * side, 5);
  ThreadPool pool(2);
  eye.run(pool, rows.data(), {reinterpret_cast<const std::byte*>(&one), true},
          {reinterpret_cast<const std::byte*>(&zero), true}, reinterpret_cast<std::byte*>(y.data()));
  for (int64_t i = 0; i < side; ++i)
    for (int64_t j = 0; j < side; ++j) ASSERT_EQ(y[static_cast<size_t>(i * side + j)], j == i - 2 ? 1 : 0);
}

}  // namespace
}  // namespace camshaft::cpu::interval_select_test
