#include "onnx/scalar_expression.h"

#include <cmath>

#include "onnx/claimed_operators.h"
#include "onnx/import_test_util.h"

namespace camshaft::onnx::scalar_expression_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the writers are this file's language

/// What the expression gives for x and y.
double value(const std::string& expression, double x, double y = 0) {
  static int count = 0;
  const std::string name = "F" + std::to_string(count++);
  add_expression(parse_scalar_expression("expressions::" + name + "(x, y) = " + expression));
  GraphWriter graph;
  graph.input("x", DType::f64, {1}).input("y", DType::f64, {1});
  graph.node(name, {"x", "y"}, {"z"}, {}, "expressions").output("z", DType::f64);
  const Graph imported = import_bytes(ModelWriter().opset(17).opset(1, "expressions").graph(graph).bytes()).graph;
  const auto of = [](double v) { return Tensor::of<double>(DType::f64, {1}, {v}); };
  return run(imported, {of(x), of(y)}).at(0).to_doubles()[0];
}

TEST(ScalarExpression, BindsAsUsual) {
  EXPECT_EQ(value("1 + 2 * x", 3), 7);
  EXPECT_EQ(value("(1 + 2) * x", 3), 9);
  EXPECT_EQ(value("x - y - 1", 5, 2), 2);
  EXPECT_EQ(value("x / y / 2", 12, 3), 2);
  EXPECT_EQ(value("-x ^ 2", 3), -9);
  EXPECT_EQ(value("2 ^ -x", 1), 0.5);
  EXPECT_EQ(value("2 ^ x ^ y", 3, 2), 512);
  EXPECT_EQ(value("- - x", 3), 3);
  EXPECT_EQ(value("1.5e2 * x + .5", 2), 300.5);
}

TEST(ScalarExpression, HasFunctionsAndComparisons) {
  EXPECT_DOUBLE_EQ(value("max(tanh(x), min(x, y))", 0.5, 0.25), std::tanh(0.5));
  EXPECT_EQ(value("select(x < y, x, y)", 2, 1), 1);
  EXPECT_EQ(value("select(x >= y, x, 7)", 2, 2), 2);
  EXPECT_EQ(value("select(x == y, 1, 0)", 2, 3), 0);
}

TEST(ScalarExpression, NestsOnlySoDeep) {
  EXPECT_THROW(parse_scalar_expression("F(x) = " + std::string(100000, '(') + "x"), Error);
  EXPECT_THROW(parse_scalar_expression("F(x) = " + std::string(100000, '-') + "x"), Error);
}

TEST(ScalarExpression, NamesHaveDomains) {
  EXPECT_EQ(parse_scalar_expression("F(x) = x").domain, "");
  EXPECT_EQ(parse_scalar_expression("a::F(x) = x").domain, "a");
  EXPECT_EQ(parse_scalar_expression("com.mine::F(x) = x").domain, "com.mine");
}

TEST(ScalarExpression, TheSameAgainIsFineAndAnotherIsNot) {
  add_expression(parse_scalar_expression("expressions::Twice(x) = x + x"));
  add_expression(parse_scalar_expression("expressions::Twice(x) = x + x"));
  EXPECT_THROW(add_expression(parse_scalar_expression("expressions::Twice(x) = 2 * x")), Error);
}

}  // namespace
}  // namespace camshaft::onnx::scalar_expression_test
