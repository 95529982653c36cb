#include "backends/cuda/passes/byte_products.h"

#include <algorithm>

#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::byte_products_test {
namespace {

size_t count_of(const Graph& graph, std::string_view op) {
  return static_cast<size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op.name() == op; }));
}

std::string numbers(Random& random, size_t count, int64_t low, int64_t high) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + std::to_string(random.integer(low, high));
  return "[" + list + "]";
}

// A product of steps and constant weights, as bytes or as it was; the same numbers either way.
void expect_products(const std::string& body, const std::string& input, size_t integer) {
  SCOPED_TRACE(body);
  Graph graph = graph_of(input, body);
  const Graph before = graph;
  byte_products(graph, test_context());
  verify(graph, "the pass under test");
  EXPECT_EQ(count_of(graph, "integer_matmul") + count_of(graph, "integer_conv"), integer) << print(graph);
  Random random = test_random();
  Tensor x(graph.type(graph.inputs[0]).dtype, [&] {
    Dims dims;
    for (const Dim& d : graph.shape(graph.inputs[0])) dims.push_back(*d.as_constant());
    return dims;
  }());
  for (size_t i = 0; i < x.bytes(); ++i) x.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
  const Tensor got = evaluate(graph, {x}, test_pool())[0], want = evaluate(before, {x}, test_pool())[0];
  ASSERT_EQ(got.dims(), want.dims());
  for (int64_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got.as<float>()[i], want.as<float>()[i], 1e-3);
}

std::string product(const std::string& weights, const std::string& zero, const std::string& x_zero = "u8[] = 3") {
  return "const %sx: f32[] = 0.5\nconst %zx: " + x_zero + "\nconst %w: " + weights +
         "\nconst %sw: f32[] = 0.25\nconst %zw: " + zero +
         "\n%xf = dequantize (%x, %sx, %zx)\n%wf = dequantize (%w, %sw, %zw)\n%y = matmul (%xf, %wf)\n"
         "return \"y\" = %y";
}

TEST(ByteProducts, TakesWhatTheTensorCoresTake) {
  Random random = test_random();
  const std::string x = "%x: u8[2, 16]";
  expect_products(product("i8[16, 3] = " + numbers(random, 48, -128, 127), "i8[] = 0"), x, 1);
  // Zero points of weights go where 8 bits are left, …
  expect_products(product("u8[16, 3] = " + numbers(random, 48, 0, 255), "u8[] = 128"), x, 1);
  expect_products(product("u8[16, 3] = " + numbers(random, 48, 10, 200), "u8[] = 100"), x, 1);
  expect_products(product("i8[16, 3] = " + numbers(random, 48, -100, 100), "i8[] = 5"), x, 1);
  // … and else the product stays as it is.
  expect_products(product("u8[16, 3] = " + numbers(random, 48, 200, 255), "u8[] = 3"), x, 0);
}

TEST(ByteProducts, ZeroPointsOfColumns) {
  Random random = test_random();
  expect_products("const %sx: f32[] = 0.5\nconst %w: u8[16, 3] = " + numbers(random, 48, 100, 150) +
                      "\nconst %sw: f32[3] = [1, 2, 0.5]\nconst %zw: u8[3] = [128, 120, 99]\n"
                      "%xf = dequantize (%x, %sx)\n%wf = dequantize {axis=1} (%w, %sw, %zw)\n"
                      "%y = matmul (%xf, %wf)\nreturn \"y\" = %y",
                  "%x: i8[2, 16]", 1);
}

TEST(ByteProducts, LeavesSumsThatAreNoWholePieces) {
  Random random = test_random();
  expect_products(product("i8[15, 3] = " + numbers(random, 45, -128, 127), "i8[] = 0"), "%x: u8[2, 15]", 0);
  // Three channels of an image.
  expect_products(
      "const %sx: f32[] = 0.5\nconst %w: i8[2, 3, 1, 1] = [1, 2, 3, 4, 5, 6]\nconst %sw: f32[] = 0.25\n"
      "%xf = dequantize (%x, %sx)\n%wf = dequantize (%w, %sw)\n"
      "%y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%xf, %wf)\nreturn \"y\" = %y",
      "%x: i8[1, 3, 2, 2]", 0);
}

}  // namespace
}  // namespace camshaft::byte_products_test
