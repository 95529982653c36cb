// Shape arithmetic folds to expressions of the dims.
#include "ir/ops/content.h"

#include "ir/ops/generate.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/small_tensors.h"

namespace camshaft::ops::content_test {
namespace {

using F = ScalarFunction;

class ContentTest : public testing::Test {
 protected:
  ValueId dims(const Shape& elements, DType dtype = DType::i64) {
    return graph.add(DimsTensor{elements, dtype, false}, {}, "d");
  }
  std::optional<std::vector<Dim>> folded(F function, const std::vector<ValueId>& operands) {
    return graph.value(graph.add(Pointwise{function}, operands, "y")).content;
  }
  std::optional<std::vector<Dim>> of(F function, const Dim& a, const Dim& b) {
    return folded(function, {dims({a}), dims({b})});
  }
  static std::vector<Dim> one(const Dim& d) { return {d}; }

  Graph graph;
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
};

TEST_F(ContentTest, Arithmetic) {
  EXPECT_EQ(of(F::add, n, 2), one(n + Dim(2)));
  EXPECT_EQ(of(F::sub, n, m), one(n - m));
  EXPECT_EQ(of(F::mul, n, m), one(n * m));
  EXPECT_EQ(of(F::div, n, 4), one(floor_div(n, 4)));
  EXPECT_EQ(of(F::div, n * m, m), one(n));
  EXPECT_EQ(of(F::div, -7, 2), one(-3));               // constants truncate
  EXPECT_EQ(of(F::div, n - Dim(4), 4), std::nullopt);  // may be negative: truncation is not floor_div
  EXPECT_EQ(of(F::div, n, 0), std::nullopt);
  EXPECT_EQ(of(F::mod, n, 4), one(mod(n, 4)));
  EXPECT_EQ(of(F::fmod, n - Dim(4), 4), std::nullopt);
  EXPECT_EQ(of(F::min, n, 7), one(min(n, 7)));
  EXPECT_EQ(of(F::max, n, 0), one(n));
  EXPECT_EQ(folded(F::neg, {dims({n})}), one(Dim(-1) * n));
  EXPECT_EQ(folded(F::abs, {dims({n})}), one(n));
  EXPECT_EQ(folded(F::abs, {dims({n - Dim(1)})}), std::nullopt);
  EXPECT_EQ(of(F::mul, std::numeric_limits<int64_t>::max(), 2), std::nullopt);  // wraps: no expression says that
}

TEST_F(ContentTest, Comparisons) {
  EXPECT_EQ(of(F::equal, n, -1), one(0));  // sizes are never negative
  EXPECT_EQ(of(F::equal, n, n), one(1));
  EXPECT_EQ(of(F::equal, n, 4), std::nullopt);
  EXPECT_EQ(of(F::less, n, n + Dim(1)), one(1));
  EXPECT_EQ(of(F::less, n, 0), one(0));
  EXPECT_EQ(of(F::less, 0, n), std::nullopt);
  EXPECT_EQ(of(F::less_or_equal, 0, n), one(1));
  const ValueId yes = dims({1}, DType::boolean), no = dims({0}, DType::boolean);
  EXPECT_EQ(folded(F::logical_and, {yes, no}), one(0));
  EXPECT_EQ(folded(F::logical_or, {yes, no}), one(1));
  EXPECT_EQ(folded(F::logical_xor, {yes, yes}), one(0));
  EXPECT_EQ(folded(F::logical_not, {no}), one(1));
}

TEST_F(ContentTest, SelectAndBroadcast) {
  const ValueId minus = dims({-1});
  const ValueId shape = dims({n, 3});
  const ValueId is_minus = graph.add(Pointwise{F::equal}, {shape, minus}, "e");
  EXPECT_EQ(graph.value(is_minus).content, (std::vector<Dim>{0, 0}));
  EXPECT_EQ(folded(F::select, {is_minus, minus, shape}), (std::vector<Dim>{n, 3}));
  const ValueId unknown = graph.add_input("u", {DType::i64, {2}});
  EXPECT_EQ(folded(F::select, {is_minus, unknown, shape}), (std::vector<Dim>{n, 3}));  // the branch never taken
  EXPECT_EQ(folded(F::select, {is_minus, shape, unknown}), std::nullopt);
  const ValueId longer = graph.add_input("l", {DType::i64, {3}});
  const ValueId yes = dims({1}, DType::boolean);
  EXPECT_EQ(folded(F::select, {yes, minus, longer}), (std::vector<Dim>{-1, -1, -1}));
  EXPECT_EQ(folded(F::mul, {shape, graph.add_constant("two", Tensor::scalar(DType::i64, 2))}),
            (std::vector<Dim>{Dim(2) * n, 6}));
}

TEST_F(ContentTest, Cast) {
  const auto cast = [&](const Dim& d, DType to) { return graph.value(graph.add(Cast{to}, {dims({d})}, "c")).content; };
  EXPECT_EQ(cast(n, DType::i32), one(n));
  EXPECT_EQ(cast(n, DType::f32), std::nullopt);
  EXPECT_EQ(cast(n, DType::u8), std::nullopt);  // may not fit
  EXPECT_EQ(cast(7, DType::u8), one(7));
  EXPECT_EQ(cast(300, DType::u8), std::nullopt);
  EXPECT_EQ(cast(n + Dim(1), DType::boolean), one(1));
  EXPECT_EQ(cast(n, DType::boolean), std::nullopt);
}

TEST_F(ContentTest, Reduce) {
  const ValueId shape = dims({n, 3, m});
  const auto reduced = [&](ReduceKind kind) {
    return graph.value(graph.add(ops::Reduce{kind, {0}, false}, {shape}, "r")).content;
  };
  EXPECT_EQ(reduced(ReduceKind::prod), one(Dim(3) * n * m));
  EXPECT_EQ(reduced(ReduceKind::sum), one(n + m + Dim(3)));
  EXPECT_EQ(reduced(ReduceKind::mean), std::nullopt);
}

}  // namespace
}  // namespace camshaft::ops::content_test
