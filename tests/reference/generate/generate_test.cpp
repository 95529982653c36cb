#include "ir/ops/generate.h"

#include "ir/ops/move.h"
#include "reference/single_op.h"

namespace camshaft::ops::generate_test {
namespace {

TEST(DimsTensor, EvaluatesItsExpressions) {
  const Dim n = Dim::symbol("n");
  EXPECT_EQ(run_op(DimsTensor{{n, n * n + Dim(1), 7}}, {}, {{"n", 5}})[0], i64({3}, {5, 26, 7}));
  EXPECT_EQ(run_op(DimsTensor{{n}, DType::i32, true}, {}, {{"n", 5}})[0], Tensor::scalar(DType::i32, 5));
  EXPECT_EQ(run_op(DimsTensor{{n, 0}, DType::boolean}, {}, {{"n", 5}})[0],
            Tensor::of<uint8_t>(DType::boolean, {2}, {1, 0}));
  EXPECT_NE(error_of([&] { run_op(DimsTensor{{n, n}, DType::i64, true}, {}); }).find("scalar"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(DimsTensor{{n}, DType::f32}, {}); }).find("f32"), std::string::npos);
}

TEST(ShapeOf, ContentAndValue) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 3, 4}});
  const ValueId y = graph.add(ShapeOf{0, 2}, {x}, "y");
  EXPECT_EQ(graph.type(y), (TensorType{DType::i64, {2}}));
  EXPECT_EQ(graph.value(y).content, (std::vector<Dim>{n, 3}));
  EXPECT_EQ(run_op(ShapeOf{1, 3}, {Tensor(DType::f32, {2, 3, 4})})[0], i64({2}, {3, 4}));
  EXPECT_NE(error_of([&] { graph.add(ShapeOf{1, 4}, {x}, "z"); }).find("[1, 4)"), std::string::npos);
}

TEST(Range, Values) {
  const auto range = [](double a, double b, double c, DType t) {
    return run_op(Range{}, {Tensor::scalar(t, a), Tensor::scalar(t, b), Tensor::scalar(t, c)}, {}, true)[0];
  };
  EXPECT_EQ(range(1, 10, 3, DType::i64), i64({3}, {1, 4, 7}));
  EXPECT_EQ(range(10, 4, -2, DType::i64), i64({3}, {10, 8, 6}));
  EXPECT_EQ(range(10, 3, -2, DType::i32), Tensor::of<int32_t>(DType::i32, {4}, {10, 8, 6, 4}));
  EXPECT_EQ(range(4, 4, 1, DType::i64).size(), 0);
  EXPECT_EQ(range(5, 4, 1, DType::i64).size(), 0);
  EXPECT_EQ(range(0, 1, 0.25, DType::f32), f32({4}, {0, 0.25f, 0.5f, 0.75f}));
  EXPECT_EQ(range(1, 0, -0.5, DType::f64).to_doubles(), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(range(0, 40000, 1, DType::i64).to_ints()[39999], 39999);
  EXPECT_NE(error_of([&] { range(0, 4, 0, DType::i64); }).find("delta"), std::string::npos);
  EXPECT_NE(error_of([&] { range(0, 4, 0, DType::f32); }).find("delta"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::generate_test
