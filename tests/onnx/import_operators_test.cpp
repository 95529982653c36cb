// Operators that are lowered to others, against values computed by hand.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "ir/ops/contract.h"
#include "onnx/import_test_util.h"
#include "reference/evaluate.h"

namespace camshaft::onnx::testing::import_operators_test {
namespace {

using Names = std::vector<std::string>;

const Tensor x5 = floats({5}, {-2, -0.5, 0, 1, 3});

void expect_function(const Tensor& y, double (*f)(double)) {
  std::vector<double> expected;
  for (const double v : x5.to_doubles()) expected.push_back(f(v));
  expect_near(y, {5}, expected);
}

TEST(ImportOperators, Activations) {
  expect_function(run_node("Relu", 14, {x5}), [](double v) { return std::max(v, 0.0); });
  expect_function(run_node("LeakyRelu", 16, {x5}, {attr("alpha", 0.1F)}), [](double v) { return v < 0 ? 0.1 * v : v; });
  expect_function(run_node("Elu", 6, {x5}, {attr("alpha", 2.0F)}),
                  [](double v) { return v < 0 ? 2 * std::expm1(v) : v; });
  expect_function(run_node("Celu", 12, {x5}, {attr("alpha", 2.0F)}),
                  [](double v) { return v < 0 ? 2 * std::expm1(v / 2) : v; });
  expect_function(run_node("Selu", 6, {x5}),
                  [](double v) { return 1.0507009873554805 * (v < 0 ? 1.6732632423543772 * std::expm1(v) : v); });
  expect_function(run_node("HardSigmoid", 6, {x5}), [](double v) { return std::clamp(0.2 * v + 0.5, 0.0, 1.0); });
  expect_function(run_node("HardSwish", 14, {x5}), [](double v) { return v * std::clamp(v / 6 + 0.5, 0.0, 1.0); });
  expect_function(run_node("Softplus", 1 + 6, {x5}), [](double v) { return std::log1p(std::exp(v)); });
  expect_function(run_node("Softsign", 7, {x5}), [](double v) { return v / (1 + std::abs(v)); });
  expect_function(run_node("Mish", 18, {x5}), [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  expect_function(run_node("ThresholdedRelu", 10, {x5}), [](double v) { return v > 1 ? v : 0; });
  expect_function(run_node("Gelu", 20, {x5}), [](double v) { return v * std::erfc(-v / std::sqrt(2)) / 2; });
  expect_function(run_node("Swish", 24, {x5}), [](double v) { return v / (1 + std::exp(-v)); });
  const auto gelu_tanh = [](double v) {
    return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  expect_function(run_node("Gelu", 20, {x5}, {attr("approximate", "tanh")}), gelu_tanh);
  expect_function(run_node("FastGelu", 17, {x5}, {}, "com.microsoft"), gelu_tanh);
  expect_function(run_node("QuickGelu", 17, {x5}, {}, "com.microsoft"),
                  [](double v) { return v / (1 + std::exp(-1.702 * v)); });
}

TEST(ImportOperators, SoftplusDoesNotOverflow) {
  expect_near(run_node("Softplus", 13, {floats({2}, {200, -200})}), {2}, {200, 0});
}

TEST(ImportOperators, ClipByAttributesAndInputs) {
  expect_near(run_node("Clip", 6 + 1, {x5}, {attr("min", -1.0F), attr("max", 2.0F)}), {5}, {-1, -0.5, 0, 1, 2});
  expect_near(run_node("Clip", 13, {x5, floats({}, {-1})}), {5}, {-1, -0.5, 0, 1, 3});
}

TEST(ImportOperators, PRelu) {
  const Tensor x = floats({1, 2, 2}, {-1, 1, -1, 1});
  expect_near(run_node("PRelu", 16, {x, floats({2, 1}, {0.5, 0.25})}), {1, 2, 2}, {-0.5, 1, -0.25, 1});
}

TEST(ImportOperators, ComparisonsAndLogic) {
  const Tensor a = floats({3}, {1, 2, 3}), b = floats({3}, {2, 2, 2});
  expect_near(run_node("Greater", 13, {a, b}), {3}, {0, 0, 1});
  expect_near(run_node("GreaterOrEqual", 16, {a, b}), {3}, {0, 1, 1});
  expect_near(run_node("Less", 13, {a, b}), {3}, {1, 0, 0});
  expect_near(run_node("LessOrEqual", 16, {a, b}), {3}, {1, 1, 0});
  expect_near(run_node("Equal", 13, {a, b}), {3}, {0, 1, 0});
  const Tensor bits = Tensor::of<uint8_t>(DType::boolean, {3}, {1, 0, 1});
  expect_near(run_node("Where", 16, {bits, a, b}), {3}, {1, 2, 3});
  expect_near(run_node("Not", 1 + 6, {bits}), {3}, {0, 1, 0});
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor extremes = floats({3}, {-infinity, infinity, NAN});
  expect_near(run_node("IsInf", 10, {extremes}), {3}, {1, 1, 0});
  expect_near(run_node("IsInf", 10, {extremes}, {attr("detect_negative", 0)}), {3}, {0, 1, 0});
  expect_near(run_node("IsNaN", 13, {extremes}), {3}, {0, 0, 1});
}

TEST(ImportOperators, Arithmetic) {
  const Tensor a = floats({2}, {1, 2}), b = floats({2}, {3, 5}), c = floats({2}, {8, -1});
  expect_near(run_node("Sum", 13, {a, b, c}), {2}, {12, 6});
  expect_near(run_node("Mean", 13, {a, b, c}), {2}, {4, 2});
  expect_near(run_node("Max", 13, {a, b, c}), {2}, {8, 5});
  expect_near(run_node("Min", 13, {a}), {2}, {1, 2});
  expect_near(run_node("Pow", 15, {a, Tensor::from_ints({3, 2})}), {2}, {1, 4});
  EXPECT_EQ(run_node("Pow", 15, {Tensor::from_ints({2, 9}), floats({2}, {3, 0.5})}).to_ints(),
            (std::vector<int64_t>{8, 3}));
  const Tensor p = Tensor::from_ints({-7, 7}), q = Tensor::from_ints({3, -3});
  EXPECT_EQ(run_node("Mod", 13, {p, q}).to_ints(), (std::vector<int64_t>{2, -2}));
  EXPECT_EQ(run_node("Mod", 13, {p, q}, {attr("fmod", 1)}).to_ints(), (std::vector<int64_t>{-1, 1}));
  EXPECT_EQ(run_node("BitShift", 11,
                     {Tensor::of<uint8_t>(DType::u8, {2}, {1, 2}), Tensor::of<uint8_t>(DType::u8, {2}, {3, 1})},
                     {attr("direction", "LEFT")})
                .to_ints(),
            (std::vector<int64_t>{8, 4}));
  // Operator set 6: the second operand's axis belongs to axis 0 of the first.
  expect_near(run_node("Add", 6, {floats({2, 2}, {0, 0, 0, 0}), a}, {attr("broadcast", 1), attr("axis", 0)}), {2, 2},
              {1, 1, 2, 2});
  EXPECT_EQ(run_node("Cast", 13, {x5}, {attr("to", dtype_to_onnx(DType::i32))}).to_ints(),
            (std::vector<int64_t>{-2, 0, 0, 1, 3}));
}

TEST(ImportOperators, SoftmaxChangedItsMeaning) {
  const Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  expect_near(run_node("Softmax", 11, {x}), {1, 2, 2}, {0.25, 0.25, 0.25, 0.25});
  expect_near(run_node("Softmax", 13, {x}), {1, 2, 2}, {0.5, 0.5, 0.5, 0.5});
  expect_near(run_node("LogSoftmax", 13, {x}, {attr("axis", 1)}), {1, 2, 2}, std::vector<double>(4, -std::log(2)));
}

TEST(ImportOperators, GemmAndMatMul) {
  const Tensor a = floats({2, 2}, {1, 2, 3, 4}), b = floats({2, 2}, {5, 6, 7, 8}), c = floats({2}, {10, 20});
  expect_near(run_node("Gemm", 13, {a, b, c}), {2, 2}, {29, 42, 53, 70});
  expect_near(run_node("Gemm", 13, {a, b, c}, {attr("transA", 1), attr("alpha", 0.5F), attr("beta", 2.0F)}), {2, 2},
              {33, 55, 39, 62});
  expect_near(run_node("FusedMatMul", 13, {a, b}, {attr("transB", 1), attr("alpha", 2.0F)}, "com.microsoft"), {2, 2},
              {34, 46, 78, 106});
  expect_near(run_node("MatMul", 13, {c, a}), {2}, {70, 100});
  expect_near(run_node("MatMul", 13, {a, c}), {2}, {50, 110});
  expect_near(run_node("MatMul", 13, {c, c}), {}, {500});
}

TEST(ImportOperators, GemmOfIntegersCutsOffAfterTheSum) {
  const auto ints = [](Dims dims, const std::vector<int32_t>& v) { return Tensor::of<int32_t>(DType::i32, dims, v); };
  const Tensor a = ints({1, 2}, {1, 2}), b = ints({2, 2}, {1, -2, 1, -3}), c = ints({2}, {1, 3});
  EXPECT_EQ(run_node("Gemm", 13, {a, b}, {attr("alpha", 0.5F)}), ints({1, 2}, {1, -4}));
  EXPECT_EQ(run_node("Gemm", 13, {a, b, c}, {attr("alpha", 0.5F)}), ints({1, 2}, {2, -1}));
  EXPECT_EQ(run_node("Gemm", 13, {a, b, c}, {attr("alpha", 0.5F), attr("beta", 0.5F)}), ints({1, 2}, {2, -2}));
}

TEST(ImportOperators, ShrinkOfIntegersCutsOffAfterTheBias) {
  const Tensor x = Tensor::of<int64_t>(DType::i64, {5}, {-9, -1, 0, 1, 9});
  EXPECT_EQ(run_node("Shrink", 9, {x}, {attr("lambd", 0.5F), attr("bias", 0.5F)}),
            Tensor::of<int64_t>(DType::i64, {5}, {-8, 0, 0, 0, 8}));
}

TEST(ImportOperators, ResizeOfOperatorSet10RoundsUpWhereItShrinks) {
  const Tensor x = floats({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_near(run_node("Resize", 10, {x, floats({4}, {1, 1, 0.6F, 0.6F})}), {1, 1, 1, 2}, {1, 3});
  expect_near(run_node("Resize", 10, {x, floats({4}, {1, 1, 2, 0.6F})}), {1, 1, 4, 2}, {1, 3, 1, 3, 5, 7, 5, 7});
}

TEST(ImportOperators, AffineGridOfASinglePosition) {
  const Tensor theta = floats({1, 2, 3}, {1, 0, 0, 0, 1, 0}), size = Tensor::from_ints({1, 1, 1, 2});
  expect_near(run_node("AffineGrid", 20, {theta, size}, {attr("align_corners", 1)}), {1, 1, 2, 2}, {-1, 0, 1, 0});
}

TEST(ImportOperators, Einsum) {
  const Tensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6}), b = floats({3, 2}, {1, 0, 0, 1, 1, 1});
  const auto einsum = [](const std::string& equation, const std::vector<Tensor>& inputs) {
    return run_node("Einsum", 12, inputs, {attr("equation", equation)});
  };
  expect_near(einsum("ij,jk->ik", {a, b}), {2, 2}, {4, 5, 10, 11});
  expect_near(einsum("ij,jk->ki", {a, b}), {2, 2}, {4, 10, 5, 11});
  expect_near(einsum("ij->j", {a}), {3}, {5, 7, 9});
  expect_near(einsum("ji", {a}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_near(einsum("ij,ij->", {a, a}), {}, {91});
  expect_near(einsum("...i,...i->...", {a, a}), {2}, {14, 77});
  const Tensor square = floats({2, 2}, {1, 2, 3, 4});
  expect_near(einsum("ii->i", {square}), {2}, {1, 4});
  expect_near(einsum("ii", {square}), {}, {5});
  expect_near(einsum("iij->j", {floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}), {2}, {8, 10});
  expect_near(einsum("i,j->ij", {floats({2}, {1, 2}), floats({2}, {3, 4})}), {2, 2}, {3, 4, 6, 8});
  // Axes of size 1 beside longer ones.
  const Tensor column = floats({2, 1}, {10, 20}), row = floats({1, 3}, {1, 0, 2});
  expect_near(einsum("ij,jk->ik", {column, b}), {2, 2}, {20, 20, 40, 40});
  expect_near(einsum("ij,jk->ijk", {column, floats({2, 1}, {1, 3})}), {2, 2, 1}, {10, 30, 20, 60});
  expect_near(einsum("bi,bi->b", {row, a}), {2}, {7, 16});
  expect_near(einsum("i,i->", {floats({1}, {2}), floats({3}, {1, 2, 3})}), {}, {12});
  expect_near(einsum("ij,ij,ij->i", {column, a, row}), {2}, {70, 320});
  expect_near(einsum("ij,ij->", {floats({1, 1}, {2}), a}), {}, {42});
  expect_near(einsum("ij,ij->ij", {floats({1, 1}, {2}), floats({1, 1}, {3})}), {1, 1}, {6});
  expect_near(einsum("ij,jk,kl->il", {a, b, b.reshaped({2, 3})}), {2, 3}, {9, 5, 5, 21, 11, 11});
}

// Sizes that only running tells may be 1 beside others, of axes that are summed, too.
TEST(ImportOperators, EinsumOfSymbolicSizes) {
  const Graph products = import_graph(GraphWriter()
                                          .input("a", DType::f32, {"n", "j"})
                                          .input("b", DType::f32, {"k", "m"})
                                          .output("y", DType::f32)
                                          .node("Einsum", {"a", "b"}, {"y"}, {attr("equation", "ij,jk->ik")}),
                                      12);
  const Tensor a = floats({2, 3}, {1, 2, 3, 4, 5, 6}), column = floats({2, 1}, {10, 20});
  const Tensor b = floats({3, 2}, {1, 0, 0, 1, 1, 1}), row = floats({1, 2}, {3, 5});
  expect_near(run(products, {a, b})[0], {2, 2}, {4, 5, 10, 11});
  expect_near(run(products, {column, b})[0], {2, 2}, {20, 20, 40, 40});
  expect_near(run(products, {a, row})[0], {2, 2}, {18, 30, 45, 75});
  expect_near(run(products, {column, row})[0], {2, 2}, {30, 50, 60, 100});
  EXPECT_THROW(run(products, {a, floats({2, 2}, {1, 2, 3, 4})}), Error);

  const Graph of_three = import_graph(GraphWriter()
                                          .input("a", DType::f32, {"i", "j"})
                                          .input("b", DType::f32, {"k", 3})
                                          .input("c", DType::f32, {2, "m"})
                                          .output("y", DType::f32)
                                          .node("Einsum", {"a", "b", "c"}, {"y"}, {attr("equation", "ij,ij,ij->i")}),
                                      12);
  expect_near(run(of_three, {column, a, floats({2, 3}, {1, 0, 2, 1, 1, 0})})[0], {2}, {70, 180});
  expect_near(run(of_three, {floats({1, 1}, {2}), a, column})[0], {2}, {120, 600});
  expect_near(run(of_three, {a, floats({1, 3}, {1, 0, 1}), column})[0], {2}, {40, 200});
}

TEST(ImportOperators, ConvolutionPadding) {
  const Tensor x = floats({1, 1, 5}, {1, 2, 3, 4, 5}), w = floats({1, 1, 2}, {1, 10});
  const auto conv = [&](const std::string& auto_pad, int64_t stride) {
    return run_node("Conv", 11, {x, w}, {attr("auto_pad", auto_pad), attr("strides", {stride})});
  };
  expect_near(conv("VALID", 1), {1, 1, 4}, {21, 32, 43, 54});
  expect_near(conv("SAME_UPPER", 1), {1, 1, 5}, {21, 32, 43, 54, 5});
  expect_near(conv("SAME_LOWER", 1), {1, 1, 5}, {10, 21, 32, 43, 54});
  expect_near(conv("SAME_UPPER", 2), {1, 1, 3}, {21, 43, 5});
  const Tensor v = floats({1, 1, 2}, {1, 2});
  expect_near(run_node("ConvTranspose", 11, {v, w}, {attr("strides", {2})}), {1, 1, 4}, {1, 10, 2, 20});
  expect_near(run_node("ConvTranspose", 11, {v, w}, {attr("strides", {2}), attr("output_shape", {3})}), {1, 1, 3},
              {10, 2, 20});
  expect_near(run_node("ConvTranspose", 11, {v, w}, {attr("auto_pad", "SAME_UPPER")}), {1, 1, 2}, {1, 12});
}

// Becomes a convolution where its weights are known, and none whose weights each run would have to turn: held to the
// transposed one of the reference, with groups, dilations and pads. One pixel has no steps.
TEST(ImportOperators, TransposedConvolutionWithoutStrides) {
  std::vector<float> numbers;
  for (int i = 0; i < 2 * 4 * 5 * 6; ++i) numbers.push_back(static_cast<float>(i * 7 % 13) - 6);
  for (const int64_t height : {5, 1}) {
    const int64_t step = height == 1 ? 3 : 1, extra = height == 1 ? 2 : 0;
    const auto count = static_cast<size_t>(2 * 4 * height * 6);
    const Tensor x = Tensor::of<float>(DType::f32, {2, 4, height, 6}, {numbers.begin(), numbers.begin() + count});
    const std::vector<float> weights(numbers.begin(), numbers.begin() + 4 * 3 * 3 * 2);
    const Tensor w = Tensor::of<float>(DType::f32, {4, 3, 3, 2}, weights);
    const Tensor bias = floats({6}, {1, 2, 3, 4, 5, 6});
    const ops::ConvTranspose op{{step, 1}, {1, 0, 2, 1}, {1, 2}, {extra, 0}, 2};
    const std::vector<TensorType> types{{DType::f32, {2, 6, height - 1 + extra, 7}}};
    const std::vector<Graph> bodies;
    ThreadPool pool(1);
    const Tensor expected = evaluate(op, EvalContext{{x, w, bias}, types, {}, bodies, pool})[0];
    for (const bool known : {true, false}) {
      GraphWriter writer;
      writer.input("x", DType::f32, {2, 4, height, 6}).input("b", DType::f32, {6});
      known ? writer.initializer(TensorWriter("w", {4, 3, 3, 2}, weights))
            : writer.input("w", DType::f32, {4, 3, 3, 2});
      writer.output("y", DType::f32);
      writer.node(
          "ConvTranspose", {"x", "w", "b"}, {"y"},
          {attr("group", 2), attr("dilations", {1, 2}), attr("pads", {1, 0, 2, 1}),
           attr("strides", std::vector<int64_t>{step, 1}), attr("output_padding", std::vector<int64_t>{extra, 0})});
      const Graph graph = import_graph(writer, 11);
      const Names names = op_names(graph);
      EXPECT_EQ(std::count(names.begin(), names.end(), "conv"), known ? 1 : 0);
      EXPECT_EQ(std::count(names.begin(), names.end(), "conv_transpose"), known ? 0 : 1);
      EXPECT_EQ(run(graph, known ? std::vector{x, bias} : std::vector{x, bias, w}).at(0), expected);
    }
  }
}

TEST(ImportOperators, Pooling) {
  const Tensor x = floats({1, 1, 5}, {1, 2, 3, 4, 6});
  const std::vector<AttributeWriter> window{attr("kernel_shape", {2}), attr("strides", {2}), attr("ceil_mode", 1)};
  expect_near(run_node("MaxPool", 12, {x}, window), {1, 1, 3}, {2, 4, 6});
  expect_near(run_node("AveragePool", 19, {x}, window), {1, 1, 3}, {1.5, 3.5, 6});
  expect_near(
      run_node("AveragePool", 19, {x}, {attr("kernel_shape", {2}), attr("pads", {1, 0}), attr("count_include_pad", 1)}),
      {1, 1, 5}, {0.5, 1.5, 2.5, 3.5, 5});
  expect_near(run_node("GlobalAveragePool", 13, {x}), {1, 1, 1}, {3.2});
  expect_near(run_node("GlobalMaxPool", 13, {x}), {1, 1, 1}, {6});
  expect_near(run_node("GlobalLpPool", 13, {x}), {1, 1, 1}, {std::sqrt(66.0)});
  expect_near(run_node("GlobalLpPool", 13, {x}, {attr("p", 1)}), {1, 1, 1}, {16});
  expect_near(run_node("LpPool", 18, {x}, {attr("kernel_shape", {2}), attr("strides", {3})}), {1, 1, 2},
              {std::sqrt(5), std::sqrt(52)});
  expect_near(run_node("LpPool", 18, {x}, {attr("kernel_shape", {2}), attr("strides", {2}), attr("ceil_mode", 1)}),
              {1, 1, 3}, {std::sqrt(5), 5, 6});
  expect_near(run_node("LpPool", 18, {x},
                       {attr("kernel_shape", {3}), attr("strides", {3}), attr("pads", {1, 1}), attr("ceil_mode", 1)}),
              {1, 1, 2}, {std::sqrt(5), std::sqrt(61)});
}

TEST(ImportOperators, BatchNormalizationFoldsConstants) {
  GraphWriter graph;
  graph.input("x", DType::f32, {1, 2, 1}).output("y", DType::f32);
  for (const auto& [name, values] : std::vector<std::pair<std::string, std::vector<float>>>{
           {"scale", {1, 2}}, {"bias", {0, 1}}, {"mean", {1, 2}}, {"var", {4, 0.25}}})
    graph.initializer(TensorWriter(name, {2}, values));
  graph.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, {"y"}, {attr("epsilon", 0.0F)});
  const Graph g = import_graph(graph, 15);
  EXPECT_EQ(op_names(g), (Names{"reshape", "pointwise", "reshape", "pointwise"}));
  expect_near(run(g, {floats({1, 2, 1}, {3, 3})})[0], {1, 2, 1}, {1, 5});
  const Tensor by_input = run_node("BatchNormalization", 15,
                                   {floats({1, 2, 1}, {3, 3}), floats({2}, {1, 2}), floats({2}, {0, 1}),
                                    floats({2}, {1, 2}), floats({2}, {4, 0.25})},
                                   {attr("epsilon", 0.0F)});
  expect_near(by_input, {1, 2, 1}, {1, 5});
}

TEST(ImportOperators, InstanceNormalizationCountsItsChannelsByTheScale) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", "c", "w"}).output("y", DType::f32);
  graph.initializer(TensorWriter("scale", {2}, std::vector<float>{1, 2}));
  graph.initializer(TensorWriter("bias", {2}, std::vector<float>{0, 1}));
  graph.node("InstanceNormalization", {"x", "scale", "bias"}, {"y"}, {attr("epsilon", 0.0F)});
  const Graph g = import_graph(graph, 22);
  expect_near(run(g, {floats({1, 2, 2}, {1, 3, 2, 6})})[0], {1, 2, 2}, {-1, 1, -1, 3});
  EXPECT_THROW(run(g, {floats({1, 4, 1}, {1, 3, 2, 6})}), Error);
}

TEST(ImportOperators, Normalizations) {
  const Tensor x = floats({1, 2, 2}, {1, 3, 2, 6}), one = floats({2}, {1, 1}), zero = floats({2}, {0, 0});
  const AttributeWriter exact = attr("epsilon", 0.0F);
  expect_near(run_node("LayerNormalization", 17, {x, one, zero}, {exact}), {1, 2, 2}, {-1, 1, -1, 1});
  expect_near(run_node("InstanceNormalization", 6 + 1, {x, one, zero}, {exact}), {1, 2, 2}, {-1, 1, -1, 1});
  const Tensor y = run_node("GroupNormalization", 18, {floats({1, 2, 1}, {1, 3}), floats({1}, {2}), floats({1}, {1})},
                            {exact, attr("num_groups", 1)});
  expect_near(y, {1, 2, 1}, {-1, 3});
  expect_near(run_node("RMSNormalization", 23, {floats({1, 2}, {3, 4}), one}, {exact}), {1, 2},
              {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
  expect_near(run_node("LpNormalization", 1 + 6, {floats({1, 2}, {3, 4})}), {1, 2}, {0.6, 0.8});
  // One channel's neighbours are at most the next one: size 2 reaches forward.
  expect_near(run_node("LRN", 13, {floats({1, 2, 1}, {1, 2})},
                       {attr("size", 2), attr("alpha", 2.0F), attr("beta", 1.0F), attr("bias", 1.0F)}),
              {1, 2, 1}, {1.0 / 6, 2.0 / 5});
  // 300² is more than f16 holds.
  const Tensor large = Tensor::of<uint16_t>(DType::f16, {1, 1, 1}, {0x5CB0});
  expect_near(run_node("LRN", 13, {large}, {attr("size", 1), attr("alpha", 1.0F), attr("beta", 0.5F)}), {1, 1, 1}, {1});
}

TEST(ImportOperators, LayerNormalizationGivesItsStatistics) {
  GraphWriter graph;
  graph.input("x", DType::f32, {1, 2}).input("s", DType::f32, {2});
  graph.output("y", DType::f32).output("mean", DType::f32).output("inverse", DType::f32);
  graph.node("LayerNormalization", {"x", "s"}, {"y", "mean", "inverse"}, {attr("epsilon", 0.0F)});
  const auto out = run(import_graph(graph, 17), {floats({1, 2}, {1, 5}), floats({2}, {1, 1})});
  expect_near(out[0], {1, 2}, {-1, 1});
  expect_near(out[1], {1, 1}, {3});
  expect_near(out[2], {1, 1}, {0.5});
}

TEST(ImportOperators, Reductions) {
  const Tensor x = floats({2, 2}, {1, -2, 3, 4});
  const AttributeWriter drop = attr("keepdims", 0), rows = attr("axes", {1});
  expect_near(run_node("ReduceSum", 11, {x}, {rows, drop}), {2}, {-1, 7});
  expect_near(run_node("ReduceMean", 13, {x}, {attr("axes", {-2})}), {1, 2}, {2, 1});
  expect_near(run_node("ReduceMax", 13, {x}), {1, 1}, {4});
  expect_near(run_node("ReduceProd", 13, {x}, {drop}), {}, {-24});
  expect_near(run_node("ReduceL1", 13, {x}, {rows}), {2, 1}, {3, 7});
  expect_near(run_node("ReduceL2", 13, {x}, {rows}), {2, 1}, {std::sqrt(5), 5});
  expect_near(run_node("ReduceSumSquare", 13, {x}, {rows, drop}), {2}, {5, 25});
  expect_near(run_node("ReduceLogSum", 13, {floats({2}, {1, 3})}, {drop}), {}, {std::log(4)});
  expect_near(run_node("ReduceLogSumExp", 13, {floats({2, 2}, {1000, 1000, 0, 0})}, {rows, drop}), {2},
              {1000 + std::log(2), std::log(2)}, 1e-3);
  // Of integers the whole part, which is what ONNX Runtime gives.
  for (const int64_t dtype : {6, 7, 12, 13}) {  // i32, i64, u32, u64
    const Tensor whole = Tensor::from_ints({1, 2, 3, 100, 2000, 30000}).reshaped({2, 3});
    const Tensor numbers = run_node("Cast", 13, {whole}, {attr("to", dtype)});
    EXPECT_EQ(run_node("ReduceLogSum", 13, {numbers}, {rows, drop}).to_ints(), (std::vector<int64_t>{1, 10}));
    EXPECT_EQ(run_node("ReduceLogSumExp", 13, {numbers}, {rows, drop}).to_ints(), (std::vector<int64_t>{3, 30000}));
    EXPECT_EQ(run_node("ReduceLogSumExp", 13, {numbers}, {rows}).dims(), (Dims{2, 1}));
    EXPECT_EQ(run_node("ReduceLogSumExp", 18, {numbers, Tensor::from_ints({1})}, {drop}).dtype(), numbers.dtype());
  }
  // Ends of the range, whose difference has one bit more than they.
  const Tensor ends = run_node("Cast", 13, {Tensor::from_ints({-2147483648, 2147483646, -5, -3})}, {attr("to", 6)});
  EXPECT_EQ(run_node("ReduceLogSumExp", 13, {ends.reshaped({2, 2})}, {rows, drop}).to_ints(),
            (std::vector<int64_t>{2147483646, -2}));
  expect_near(run_node("ReduceSum", 13, {x}, {attr("noop_with_empty_axes", 1)}), {2, 2}, x.to_doubles());
  EXPECT_EQ(run_node("ArgMax", 13, {x}, {attr("axis", 1), drop}).to_ints(), (std::vector<int64_t>{0, 1}));
  expect_near(run_node("Hardmax", 13, {x}), {2, 2}, {1, 0, 0, 1});
  expect_near(run_node("Hardmax", 13, {floats({2, 0}, {})}), {2, 0}, {});
  EXPECT_THROW(run_node("Hardmax", 13, {Tensor(DType::i4, {1, 2})}), Error);

  GraphWriter graph;
  graph.input("x", DType::f32, {2, 2}).output("y", DType::f32);
  graph.initializer(TensorWriter("axes", {1}, std::vector<int64_t>{-1}));
  graph.node("ReduceMean", {"x", "axes"}, {"y"});
  expect_near(run(import_graph(graph, 18), {x})[0], {2, 1}, {-0.5, 3.5});
}

TEST(ImportOperators, Resize) {
  const Tensor x = floats({1, 1, 2, 2}, {1, 2, 3, 4});
  const std::vector<double> doubled{1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  expect_near(run_node("Upsample", 7, {x}, {attr("scales", {1.0F, 1.0F, 2.0F, 2.0F})}), {1, 1, 4, 4}, doubled);
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 1, "h", 2}).output("y", DType::f32).output("z", DType::f32);
  graph.initializer(TensorWriter("scales", {4}, std::vector<float>{1, 1, 2, 2}));
  graph.initializer(TensorWriter("sizes", {2}, std::vector<int64_t>{4, 4}));
  const std::vector<AttributeWriter> nearest{attr("coordinate_transformation_mode", "asymmetric"),
                                             attr("nearest_mode", "floor")};
  graph.node("Resize", {"x", "", "scales"}, {"y"}, nearest);
  graph.node("Resize", {"x", "", "", "sizes"}, {"z"}, {nearest[0], nearest[1], attr("axes", {2, 3})});
  const Graph g = import_graph(graph, 18);
  EXPECT_EQ(type_of_output(g, 0), "f32[n, 1, 2*h, 4]");
  EXPECT_EQ(type_of_output(g, 1), "f32[n, 1, 4, 4]");
  const auto out = run(g, {x});
  expect_near(out[0], {1, 1, 4, 4}, doubled);
  expect_near(out[1], {1, 1, 4, 4}, doubled);
}

TEST(ImportOperators, IndexingAndGenerators) {
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  expect_near(run_node("Gather", 13, {x, Tensor::from_ints({-1})}, {attr("axis", 1)}), {2, 1}, {2, 4});
  expect_near(run_node("GatherElements", 13, {x, Tensor::from_ints({0, 1, 1, 0}).reshaped({2, 2})}, {attr("axis", 1)}),
              {2, 2}, {1, 2, 4, 3});
  expect_near(
      run_node("ScatterND", 18, {floats({2}, {1, 2}), Tensor::from_ints({1}).reshaped({1, 1}), floats({1}, {5})},
               {attr("reduction", "add")}),
      {2}, {1, 7});
  expect_near(run_node("Trilu", 14, {x}), {2, 2}, {1, 2, 0, 4});
  const Tensor most = Tensor::of<int64_t>(DType::i64, {}, {std::numeric_limits<int64_t>::max()});
  expect_near(run_node("Trilu", 14, {x, most}), {2, 2}, {0, 0, 0, 0});
  expect_near(run_node("Trilu", 14, {x, most}, {attr("upper", 0)}), {2, 2}, {1, 2, 3, 4});
  expect_near(run_node("Trilu", 14, {x, Tensor::from_ints({-1}).reshaped({})}, {attr("upper", 0)}), {2, 2},
              {0, 0, 3, 0});
  expect_near(run_node("Pad", 2 + 5, {x}, {attr("pads", {0, 1, 0, 0}), attr("value", 9.0F)}), {2, 3},
              {9, 1, 2, 9, 3, 4});
  expect_near(run_node("Pad", 10, {x}, {attr("pads", {0, 1, 0, 0}), attr("mode", "edge")}), {2, 3}, {1, 1, 2, 3, 3, 4});
  expect_near(run_node("EyeLike", 9, {x}, {attr("k", 1)}), {2, 2}, {0, 1, 0, 0});
  expect_near(run_node("Dropout", 13, {x}), {2, 2}, {1, 2, 3, 4});
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_operators_test
