// The bounds of slices, on numbers and on symbolic sizes.
#include "ir/ops/slice_bounds.h"

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/naive_slice.h"
#include "ir/ops/small_tensors.h"

namespace camshaft::ops::slice_bounds_test {
namespace {

TEST(SliceRange, ConstantsAsDefined) {
  for (int64_t size = 0; size <= 4; ++size)
    for (int64_t start = -6; start <= 6; ++start)
      for (int64_t end = -6; end <= 6; ++end)
        for (const int64_t step : {1, 2, 3, 7, -1, -2, -5}) {
          const auto expected = size == 0 ? std::vector<int64_t>{} : naive(start, end, step, size);
          const auto range = slice_range(start, end, step, size);
          ASSERT_TRUE(range.has_value());
          std::vector<int64_t> got;
          for (int64_t i = 0; i < range->count.value(); ++i) got.push_back(range->start.value() + i * step);
          ASSERT_EQ(got, expected) << start << ":" << end << ":" << step << " of " << size;
        }
}

TEST(SliceRange, SymbolicSizesAgreeWithConstants) {
  const Dim n = Dim::symbol("n");
  int known = 0;
  for (int64_t start = -5; start <= 5; ++start)
    for (int64_t end = -5; end <= 5; ++end)
      for (const int64_t step : {1, 2, -1, -2})
        for (const Dim& last : {Dim(end), n, n - Dim(1), n + Dim(end + 5)}) {
          const auto range = slice_range(start, last, step, n);
          if (!range) continue;
          ++known;
          for (int64_t size = 0; size <= 6; ++size) {
            const SymbolBindings bindings{{"n", size}};
            const auto exact = slice_range(start, last.evaluate(bindings), step, size);
            ASSERT_EQ(range->count.evaluate(bindings), exact->count.value())
                << start << ":" << last.str() << ":" << step << " of " << size;
            if (exact->count.value() == 0) continue;

            ASSERT_EQ(range->start.evaluate(bindings), exact->start.value())
                << start << ":" << last.str() << ":" << step << " of " << size;
          }
        }
  EXPECT_GT(known, 1000);
}

TEST(SliceRange, UsualSlicesStaySimple) {
  const Dim n = Dim::symbol("n");
  const auto count = [&](int64_t start, const Dim& end, int64_t step) {
    return slice_range(start, end, step, n)->count;
  };
  EXPECT_EQ(count(0, INT64_MAX, 1), n);
  EXPECT_EQ(count(0, INT32_MAX, 1), n);
  EXPECT_EQ(count(-1, INT64_MIN, -1), n);
  EXPECT_EQ(count(-1, INT64_MIN + 1, -1), n);
  EXPECT_EQ(count(-1, INT64_MAX, -1), n);  // as in ONNX Runtime: the end of a slice that goes backwards is the front
  EXPECT_EQ(count(-1, INT32_MAX, -1), n);
  EXPECT_EQ(count(0, n, 2), ceil_div(n, 2));
  EXPECT_EQ(count(1, INT64_MAX, 1), max(n - Dim(1), 0));
  EXPECT_EQ(count(0, -1, 1), max(n - Dim(1), 0));
  EXPECT_EQ(count(0, 1, 1), min(n, 1));
}

TEST(DynamicSlice, ShapeRules) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 8}});
  const ValueId unknown = graph.add_input("s", {DType::i64, {1}}), one = graph.add_constant("1", i64({1}, {1}));
  const ValueId from = graph.add_constant("2", i64({1}, {2})), end = graph.add(ShapeOf{0, 1}, {x}, "n");
  const Shape some = graph.shape(graph.add(DynamicSlice{}, {x, unknown, unknown, one}, "a"));
  EXPECT_EQ(some[0], n);
  EXPECT_TRUE(some[1].as_symbol().has_value());
  EXPECT_EQ(graph.shape(graph.add(DynamicSlice{}, {x, from, end}, "b")), (Shape{max(n - Dim(2), 0), 8}));
  EXPECT_EQ(graph.shape(graph.add(DynamicSlice{}, {x, from, from, one}, "c")), (Shape{n, 0}));
  const Shape none = graph.shape(graph.add(DynamicSlice{}, {x, unknown, unknown, unknown}, "d"));
  EXPECT_TRUE(none[0].as_symbol() && none[1].as_symbol() && !(none[0] == n));
  EXPECT_NE(error_of([&] { graph.add(DynamicSlice{}, {x, from, from, from}, "e"); }).find("axis 2"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::slice_bounds_test
