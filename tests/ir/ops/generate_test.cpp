#include "ir/ops/generate.h"

#include "ir/ops/small_tensors.h"

namespace camshaft::ops::generate_test {
namespace {

TEST(Range, SymbolicCounts) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const auto scalar = [&](const Dim& d) { return graph.add(DimsTensor{{d}, DType::i64, true}, {}, "d"); };
  const auto count = [&](const Dim& a, const Dim& b, int64_t c) {
    const ValueId delta = graph.add_constant("delta", Tensor::scalar(DType::i64, static_cast<double>(c)));
    return graph.add(Range{}, {scalar(a), scalar(b), delta}, "r");
  };
  EXPECT_EQ(graph.shape(count(0, n, 1))[0], n);
  EXPECT_EQ(graph.shape(count(n, n + Dim(3), 1))[0], Dim(3));
  EXPECT_EQ(graph.value(count(n, n + Dim(3), 1)).content, (std::vector<Dim>{n, n + Dim(1), n + Dim(2)}));
  EXPECT_EQ(graph.shape(count(0, n, 2))[0], ceil_div(n, 2));
  EXPECT_EQ(graph.shape(count(n, 0, -1))[0], n);
  EXPECT_EQ(graph.shape(count(n, 0, -4))[0], ceil_div(n, 4));
  const ValueId x = graph.add_input("limit", {DType::i64, {}});
  const ValueId zero = scalar(0), one = scalar(1);
  const ValueId unknown = graph.add(Range{}, {zero, x, one}, "unknown");
  EXPECT_TRUE(graph.shape(unknown)[0].as_symbol().has_value());
  EXPECT_FALSE(graph.value(unknown).content.has_value());
}

}  // namespace
}  // namespace camshaft::ops::generate_test
