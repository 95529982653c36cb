#include "backends/cuda/passes/float8_products.h"

#include <algorithm>
#include <cmath>

#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::float8_products_test {
namespace {

size_t count_of(const Graph& graph, std::string_view op) {
  return static_cast<size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) { return n.op.name() == op; }));
}

std::string numbers(Random& random, size_t count) {
  std::string list;
  for (size_t i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + std::to_string(random.integer(-8, 8));
  return "[" + list + "]";
}

// As many products of 8-bit floats, and the same numbers.
void expect_products(const std::string& body, const std::string& input, size_t products) {
  SCOPED_TRACE(body);
  Graph graph = graph_of(input, body);
  const Graph before = graph;
  float8_products(graph, test_context());
  verify(graph, "the pass under test");
  EXPECT_EQ(count_of(graph, "float8_matmul") + count_of(graph, "float8_conv"), products) << print(graph);
  Random random = test_random();
  Dims dims;
  for (const Dim& d : graph.shape(graph.inputs[0])) dims.push_back(*d.as_constant());
  const Tensor x = random_tensor(random, graph.type(graph.inputs[0]).dtype, dims);
  const Tensor got = evaluate(graph, {x}, test_pool())[0], want = evaluate(before, {x}, test_pool())[0];
  ASSERT_EQ(got.dims(), want.dims());
  const std::vector<double> g = got.to_doubles(), w = want.to_doubles();
  for (size_t i = 0; i < w.size(); ++i) {
    if (std::isnan(w[i])) {
      ASSERT_TRUE(std::isnan(g[i]));
    } else {
      ASSERT_NEAR(g[i], w[i], 1e-4 * std::abs(w[i]) + 1e-4);
    }
  }
}

std::string product(const std::string& weights, const std::string& scale, const std::string& behind = "",
                    const std::string& result = "y") {
  return "const %sx: f32[] = 0.5\nconst %w: " + weights + "\nconst %sw: " + scale +
         "\n%xf = dequantize (%x, %sx)\n%wf = dequantize {axis=1} (%w, %sw)\n%y = matmul (%xf, %wf)\n" + behind +
         "return \"r\" = %" + result;
}

TEST(Float8Products, TakesWhatTheTensorCoresTake) {
  Random random = test_random();
  for (const std::string type : {"f8e4m3", "f8e5m2"}) {
    const std::string x = "%x: " + type + "[2, 16]", weights = type + "[16, 3] = " + numbers(random, 48);
    expect_products(product(weights, "f32[] = 0.25"), x, 1);
    // Of columns of zeros, and of numbers that are as good as zero.
    expect_products(product(weights, "f32[3] = [0.25, 0, 1e-40]"), x, 1);
  }
}

TEST(Float8Products, ZeroPointsOfZeroAreNone) {
  Random random = test_random();
  const auto with_zero = [&](const std::string& zero) {
    return "const %sx: f32[] = 0.5\nconst %zx: f8e4m3[] = " + zero + "\nconst %w: f8e4m3[16, 3] = " +
           numbers(random, 48) + "\nconst %sw: f32[] = 0.25\n%xf = dequantize (%x, %sx, %zx)\n"
           "%wf = dequantize (%w, %sw)\n%y = matmul (%xf, %wf)\nreturn \"y\" = %y";
  };
  expect_products(with_zero("0"), "%x: f8e4m3[2, 16]", 1);
  expect_products(with_zero("1"), "%x: f8e4m3[2, 16]", 0);
}

TEST(Float8Products, LeavesOtherOperands) {
  Random random = test_random();
  // Of two types, of sums that are no whole pieces, by what is no constant, and bytes.
  expect_products(product("f8e5m2[16, 3] = " + numbers(random, 48), "f32[] = 0.25"), "%x: f8e4m3[2, 16]", 0);
  expect_products(product("f8e4m3[15, 3] = " + numbers(random, 45), "f32[] = 0.25"), "%x: f8e4m3[2, 15]", 0);
  expect_products(
      "const %s: f32[] = 0.5\n%xf = dequantize (%x, %s)\n%t = transpose {permutation=[1, 0]} (%xf)\n"
      "%y = matmul (%xf, %t)\nreturn \"y\" = %y",
      "%x: f8e4m3[2, 16]", 0);
  expect_products(product("i8[16, 3] = " + numbers(random, 48), "f32[] = 0.25"), "%x: i8[2, 16]", 0);
}

// The scale of what follows goes into the factor of the sums, but for one whose quotients may be infinite.
TEST(Float8Products, QuantizesBehindThem) {
  Random random = test_random();
  for (const std::string size : {"2", "1e-40"})
    expect_products(product("f8e4m3[16, 3] = " + numbers(random, 48), "f32[] = 0.25",
                            "const %sy: f32[] = " + size + "\n%q = quantize {dtype=f8e4m3} (%y, %sy)\n", "q"),
                    "%x: f8e4m3[2, 16]", 1);
}

TEST(Float8Products, Convolutions) {
  Random random = test_random();
  expect_products("const %sx: f32[] = 0.5\nconst %w: f8e4m3[2, 16, 1, 2] = " + numbers(random, 64) +
                      "\nconst %sw: f32[2] = [0.25, 2]\nconst %b: f32[2] = [3, -1]\n"
                      "%xf = dequantize (%x, %sx)\n%wf = dequantize {axis=0} (%w, %sw)\n"
                      "%y = conv {strides=[1, 1], pads=shape(0, 1, 0, 0), dilations=[1, 1]} (%xf, %wf, %b)\n"
                      "return \"y\" = %y",
                  "%x: f8e4m3[1, 16, 3, 4]", 1);
}

}  // namespace
}  // namespace camshaft::float8_products_test
