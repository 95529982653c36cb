// Quantisation and products of quantised tensors, against values computed by hand.
#include <algorithm>
#include <cmath>

#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_quantization_test {
namespace {

constexpr const char* microsoft = "com.microsoft";

Tensor u8(const Dims& dims, const std::vector<uint8_t>& values) {
  return Tensor::of(DType::u8, dims, values);
}
Tensor i8(const Dims& dims, const std::vector<int8_t>& values) {
  return Tensor::of(DType::i8, dims, values);
}
Tensor i32(const Dims& dims, const std::vector<int32_t>& values) {
  return Tensor::of(DType::i32, dims, values);
}
Tensor number(float value) {
  return floats({}, {value});
}

void expect_ints(const Tensor& actual, DType dtype, const Dims& dims, const std::vector<int64_t>& values) {
  EXPECT_EQ(actual.dtype(), dtype);
  EXPECT_EQ(actual.dims(), dims);
  EXPECT_EQ(actual.to_ints(), values);
}

std::string error_of_node(const std::string& op, int64_t opset, const std::vector<Tensor>& inputs,
                          const std::vector<AttributeWriter>& attributes = {}, const std::string& domain = {}) {
  try {
    run_node(op, opset, inputs, attributes, domain);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(ImportQuantization, QuantizeRoundsHalfToEvenAndSaturates) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = floats({9}, {0.5, 1.5, 2.5, -0.5, 2, 1000, -1000, infinity, -infinity});
  expect_ints(run_node("QuantizeLinear", 13, {x, number(1), u8({}, {3})}), DType::u8, {9},
              {3, 5, 5, 3, 5, 255, 0, 255, 0});
  expect_ints(run_node("QuantizeLinear", 10, {x, number(0.5), i8({}, {-1})}), DType::i8, {9},
              {0, 2, 4, -2, 3, 127, -128, 127, -128});
  expect_ints(run_node("QuantizeLinear", 13, {x, number(1)}), DType::u8, {9}, {0, 2, 2, 0, 2, 255, 0, 255, 0});
  const auto to = [&](int onnx_type) {
    return run_node("QuantizeLinear", 25, {x, number(1)}, {attr("output_dtype", onnx_type)});
  };
  expect_ints(to(22), DType::i4, {9}, {0, 2, 2, 0, 2, 7, -8, 7, -8});
  expect_ints(to(21), DType::u4, {9}, {0, 2, 2, 0, 2, 15, 0, 15, 0});
  expect_ints(to(26), DType::i2, {9}, {0, 1, 1, 0, 1, 1, -2, 1, -2});
  expect_ints(to(5), DType::i16, {9}, {0, 2, 2, 0, 2, 1000, -1000, 32767, -32768});
  EXPECT_EQ(to(18).to_doubles(), (std::vector<double>{0.5, 1.5, 2.5, -0.5, 2, 240, -240, 240, -240}));
  EXPECT_NE(error_of_node("QuantizeLinear", 21, {x, number(1)}, {attr("output_dtype", 1)}).find("f32"),
            std::string::npos);
  EXPECT_NE(error_of_node("QuantizeLinear", 21, {x, number(1), u8({}, {1})}, {attr("output_dtype", 3)}).find("i8"),
            std::string::npos);
}

TEST(ImportQuantization, EmptyAndScalar) {
  expect_ints(run_node("QuantizeLinear", 13, {floats({0, 3}, {}), number(1)}), DType::u8, {0, 3}, {});
  expect_ints(run_node("QuantizeLinear", 13, {number(7), number(2)}), DType::u8, {}, {4});
  expect_ints(run_node("QuantizeLinear", 13, {number(7), floats({1}, {2})}), DType::u8, {}, {4});
}

TEST(ImportQuantization, PerAxis) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_ints(run_node("QuantizeLinear", 13, {x, floats({3}, {1, 0.5, 0.25}), u8({3}, {0, 1, 2})}), DType::u8, {2, 3},
              {1, 5, 14, 4, 11, 26});
  expect_ints(run_node("QuantizeLinear", 13, {x, floats({2}, {1, 0.5})}, {attr("axis", -2)}), DType::u8, {2, 3},
              {1, 2, 3, 8, 10, 12});
  const Tensor q = u8({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(run_node("DequantizeLinear", 13, {q, floats({2}, {1, 10}), u8({2}, {1, 2})}, {attr("axis", 0)}), {2, 3},
              {0, 1, 2, 20, 30, 40});
  EXPECT_NE(error_of_node("DequantizeLinear", 13, {q, floats({2}, {1, 10})}).find("2 elements"), std::string::npos);
  EXPECT_NE(error_of_node("DequantizeLinear", 13, {q, floats({2}, {1, 10})}, {attr("axis", 2)}).find("axis 2"),
            std::string::npos);
  EXPECT_NE(error_of_node("DequantizeLinear", 13, {q, number(1), i8({}, {1})}).find("zero point is i8"),
            std::string::npos);
}

TEST(ImportQuantization, Blocks) {
  const Tensor q =
      Tensor::of<uint8_t>(DType::i4, {2, 5}, {0x21, 0x43, 0xf7, 0xde, 0x8c});  // 1 2 3 4 7 / -1 -2 -3 -4 -8
  const Tensor scales = floats({2, 3}, {1, 10, 100, 2, 20, 200});
  const Tensor y = run_node("DequantizeLinear", 21, {q, scales}, {attr("axis", 1), attr("block_size", 2)});
  expect_near(y, {2, 5}, {1, 2, 30, 40, 700, -2, -4, -60, -80, -1600});
  EXPECT_EQ(
      run_node("QuantizeLinear", 21, {y, scales}, {attr("axis", -1), attr("block_size", 2), attr("output_dtype", 22)}),
      q);
  EXPECT_NE(error_of_node("DequantizeLinear", 21, {q, scales}, {attr("block_size", 4)}).find("blocks of 4"),
            std::string::npos);
  EXPECT_NE(
      error_of_node("DequantizeLinear", 21, {q, floats({3, 3}, std::vector<float>(9, 1))}, {attr("block_size", 2)})
          .find("axis 0"),
      std::string::npos);
}

TEST(ImportQuantization, DequantizeInt32KeepsTheDifferenceExact) {
  const Tensor x = i32({2}, {(1 << 24) + 1, 5});
  expect_near(run_node("DequantizeLinear", 13, {x, number(2), i32({}, {1 << 24})}), {2}, {2, 2.0 * (5 - (1 << 24))}, 0);
}

TEST(ImportQuantization, ScalesThatArePowersOfTwo) {
  const Tensor scale = Tensor::of<uint8_t>(DType::f8e8m0, {1}, {129});  // 4
  const Tensor y = run_node("DequantizeLinear", 25, {i8({3}, {-1, 0, 3}), scale}, {attr("output_dtype", 10)});
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{-4, 0, 12}));
}

std::vector<Tensor> dynamically(const Tensor& x) {
  GraphWriter graph;
  graph.input("x", DType::f32, ShapeWriter(x.dims().begin(), x.dims().end()));
  for (const char* name : {"y", "scale", "zero"}) graph.output(name, DType::f32);
  graph.node("DynamicQuantizeLinear", {"x"}, {"y", "scale", "zero"});
  return run(import_graph(graph, 11), {x});
}

TEST(ImportQuantization, Dynamic) {
  auto y = dynamically(floats({6}, {0, 2, -3, -2.5F, 1.34F, 0.5F}));
  expect_ints(y[0], DType::u8, {6}, {153, 255, 0, 26, 221, 179});
  EXPECT_FLOAT_EQ(y[1].as<float>()[0], 5.0F / 255);
  expect_ints(y[2], DType::u8, {}, {153});
  y = dynamically(floats({2}, {0, 0}));
  expect_ints(y[0], DType::u8, {2}, {0, 0});
  EXPECT_EQ(y[1].as<float>()[0], 1);
  expect_ints(y[2], DType::u8, {}, {0});
  EXPECT_EQ(dynamically(floats({0}, {}))[0].size(), 0);
}

TEST(ImportQuantization, MatMulIntegerWithZeroPointsOfRowsAndColumns) {
  const Tensor a = u8({2, 2}, {1, 2, 3, 4}), b = i8({2, 3}, {1, 2, 3, 4, 5, 6});
  expect_ints(run_node("MatMulInteger", 10, {a, b}), DType::i32, {2, 3}, {9, 12, 15, 19, 26, 33});
  // [0 1; 1 2] · [0 1 0; 3 4 3]
  expect_ints(run_node("MatMulInteger", 10, {a, b, u8({2}, {1, 2}), i8({3}, {1, 1, 3})}), DType::i32, {2, 3},
              {3, 4, 3, 6, 9, 6});
  expect_ints(run_node("MatMulInteger", 10, {u8({2}, {1, 2}), b, u8({}, {1})}), DType::i32, {3}, {4, 5, 6});
  EXPECT_NE(error_of_node("MatMulInteger", 10, {a, b, u8({3}, {1, 2, 3})}).find("2 rows"), std::string::npos);
  // Sums beyond 2^24, where floats would round.
  const Tensor many = u8({1, 1000}, std::vector<uint8_t>(1000, 255));
  std::vector<int8_t> column(1000, -128);
  column[0] = -127;
  expect_ints(run_node("MatMulInteger", 10, {many, i8({1000, 1}, column)}), DType::i32, {1, 1}, {255 * -127999});
}

TEST(ImportQuantization, ConvIntegerPadsWithTheZeroPoint) {
  const Tensor x = u8({1, 1, 3, 3}, {2, 3, 4, 5, 6, 7, 8, 9, 10}), w = u8({1, 1, 2, 2}, {1, 1, 1, 1});
  expect_ints(run_node("ConvInteger", 10, {x, w, u8({}, {1})}), DType::i32, {1, 1, 2, 2}, {12, 16, 24, 28});
  expect_ints(run_node("ConvInteger", 10, {x, w, u8({}, {1})}, {attr("pads", {1, 1, 1, 1})}), DType::i32, {1, 1, 4, 4},
              {1, 3, 5, 3, 5, 12, 16, 9, 11, 24, 28, 15, 7, 15, 17, 9});
}

TEST(ImportQuantization, QLinearProducts) {
  const Tensor a = u8({1, 2}, {10, 20}), b = i8({2, 2}, {1, -1, 2, 3});
  // [9 19] · b = [47, 48], · 0.5 · [0.1, 0.2] / 1 = [2.35, 4.8]
  expect_ints(
      run_node("QLinearMatMul", 10,
               {a, number(0.5), u8({}, {1}), b, floats({2}, {0.1F, 0.2F}), i8({2}, {0, 0}), number(1), u8({}, {7})}),
      DType::u8, {1, 2}, {9, 12});
  const Tensor x = u8({1, 1, 2, 2}, {3, 4, 5, 6}), w = i8({2, 1, 1, 1}, {2, -3});
  // (x - 3) · w + bias = [1 3 5 7 / 0 -3 -6 -9], · [0.5, 1] / 2
  expect_ints(run_node("QLinearConv", 10,
                       {x, number(1), u8({}, {3}), w, floats({2}, {0.5, 1}), i8({2}, {0, 0}), number(2), i8({}, {10}),
                        i32({2}, {1, 0})}),
              DType::i8, {1, 2, 2, 2}, {10, 11, 11, 12, 10, 8, 7, 6});
}

TEST(ImportQuantization, MicrosoftActivations) {
  const Tensor one = number(1), zero = u8({}, {0});
  expect_ints(run_node("QLinearAdd", 17,
                       {u8({2, 2}, {1, 2, 3, 200}), number(1), u8({}, {1}), u8({2}, {4, 6}), number(0.5), u8({}, {2}),
                        number(2), u8({}, {5})},
                       {}, microsoft),
              DType::u8, {2, 2}, {5, 7, 7, 105});
  expect_ints(run_node("QLinearMul", 17, {u8({2}, {3, 5}), one, zero, u8({1}, {7}), one, u8({}, {1}), number(4), zero},
                       {}, microsoft),
              DType::u8, {2}, {4, 8});
  expect_ints(run_node("QLinearLeakyRelu", 17, {i8({3}, {-10, 0, 10}), one, i8({}, {0}), one, i8({}, {1})},
                       {attr("alpha", 0.5F)}, microsoft),
              DType::i8, {3}, {-4, 1, 11});
  expect_ints(
      run_node("QLinearConcat", 17, {number(2), u8({}, {1}), u8({1}, {8}), one, zero, u8({1}, {8}), number(4), zero},
               {attr("axis", 0)}, microsoft),
      DType::u8, {2}, {5, 17});
  expect_ints(run_node("QLinearGlobalAveragePool", 17, {u8({1, 2, 1, 2}, {1, 2, 3, 4}), one, zero, number(0.5), zero},
                       {attr("channels_last", 1)}, microsoft),
              DType::u8, {1, 1, 1, 2}, {4, 6});
  EXPECT_NE(error_of_node("QLinearSigmoid", 17, {u8({1}, {8}), floats({2}, {1, 2}), zero, one, zero}, {}, microsoft)
                .find("one number"),
            std::string::npos);
}

TEST(ImportQuantization, MicrosoftProducts) {
  const Tensor a = u8({1, 2}, {3, 5}), b = i8({2, 2}, {1, 2, 3, 4});
  // [2 4] · b = [14 20]
  expect_near(run_node("MatMulIntegerToFloat", 17,
                       {a, b, number(0.5), floats({2}, {1, 2}), u8({}, {1}), i8({}, {0}), floats({2}, {100, 200})}, {},
                       microsoft),
              {1, 2}, {107, 220});
  expect_ints(
      run_node("QGemm", 17,
               {a, number(0.5), u8({}, {1}), b, number(1), i8({}, {0}), i32({2}, {1, -1}), number(2), u8({}, {3})},
               {attr("transB", 1)}, microsoft),
      DType::u8, {1, 2}, {6, 8});  // [2 4] · bᵀ + c = [11 21], / 4 = [2.75 5.25]
  // 2.55 is 255 steps: no error but that of the weights.
  expect_near(run_node("DynamicQuantizeMatMul", 17, {floats({1, 2}, {2.55F, 0.5F}), b, number(2)}, {}, microsoft),
              {1, 2}, {2 * (2.55 + 1.5), 2 * (5.1 + 2)});
}

// Inputs that are whole steps: the same as the layer of the default domain on dequantised weights.
TEST(ImportQuantization, DynamicLstm) {
  std::vector<int8_t> w(2 * 4), r(4);
  std::vector<float> wide_w(w.size()), wide_r(r.size());
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<int8_t>(37 * i % 100 - 50);
    wide_w[i % 4 * 2 + i / 4] = 0.02F * static_cast<float>(w[i] - 3);
  }
  for (size_t i = 0; i < r.size(); ++i) {
    r[i] = static_cast<int8_t>(20 * i);
    wide_r[i] = 0.01F * static_cast<float>(r[i]);
  }
  const Tensor x = floats({2, 1, 2}, {2.55F, 0, 0.5F, 1.2F});
  const std::vector<AttributeWriter> size{attr("hidden_size", 1)};
  const Tensor wanted = run_node("LSTM", 14, {x, floats({1, 4, 2}, wide_w), floats({1, 4, 1}, wide_r)}, size);
  GraphWriter graph;
  graph.input("x", DType::f32, {2, 1, 2}).output("y", DType::f32);
  graph.initializer(TensorWriter("w", {1, 2, 4}, w)).initializer(TensorWriter("r", {1, 1, 4}, r));
  graph.initializer(TensorWriter("ws", {1}, std::vector<float>{0.02F}));
  graph.initializer(TensorWriter("wz", {1}, std::vector<int8_t>{3}));
  graph.initializer(TensorWriter("rs", {1, 4}, std::vector<float>(4, 0.01F)));
  graph.initializer(TensorWriter("rz", {1, 4}, std::vector<int8_t>(4)));
  graph.node("DynamicQuantizeLSTM", {"x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz"}, {"y"}, size,
             microsoft);
  expect_near(run(import_graph(graph, 17), {x})[0], {2, 1, 1, 1}, wanted.to_doubles());
}

TEST(ImportQuantization, WeightsOfFewBits) {
  // Two columns of 20 weights in blocks of 16: code (i + n) % 16, zero points 3 and 8 / 8 and 1.
  std::vector<uint8_t> bytes;
  const auto code = [](int n, int i) { return static_cast<uint8_t>((i + n) % 16); };
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 32; i += 2) bytes.push_back(static_cast<uint8_t>(code(n, i) | code(n, i + 1) << 4));
  const std::vector<float> scales{1, 0.5, 2, 4};
  const int zeros[2][2] = {{3, 8}, {8, 1}};
  std::vector<float> row(20);
  double wanted[2] = {10, 20};
  for (int i = 0; i < 20; ++i) {
    row[static_cast<size_t>(i)] = static_cast<float>(i % 3);
    for (int n = 0; n < 2; ++n)
      wanted[n] +=
          i % 3 * (code(n, i) - zeros[n][i / 16]) * static_cast<double>(scales[static_cast<size_t>(2 * n + i / 16)]);
  }
  const std::vector<AttributeWriter> sizes{attr("N", 2), attr("K", 20), attr("block_size", 16), attr("bits", 4)};
  GraphWriter graph;
  graph.input("a", DType::f32, {1, 20}).output("y", DType::f32);
  graph.initializer(TensorWriter("b", {2, 2, 8}, bytes)).initializer(TensorWriter("s", {4}, scales));
  graph.initializer(TensorWriter("z", {2, 1}, std::vector<uint8_t>{0x83, 0x18}));
  graph.initializer(TensorWriter("bias", {2}, std::vector<float>{10, 20}));
  graph.node("MatMulNBits", {"a", "b", "s", "z", "", "bias"}, {"y"}, sizes, microsoft);
  const Graph imported = import_graph(graph, 17);
  expect_near(run(imported, {floats({1, 20}, row)})[0], {1, 2}, {wanted[0], wanted[1]});
  // What is dequantised has 4 bits.
  const auto dequantize = std::find_if(imported.nodes.begin(), imported.nodes.end(),
                                       [](const Node& node) { return node.op.as<ops::Dequantize>(); });
  ASSERT_NE(dequantize, imported.nodes.end());
  EXPECT_EQ(imported.type(dequantize->inputs[0]).dtype, DType::u4);
  EXPECT_EQ(imported.shape(dequantize->inputs[0]), (Shape{2, 20}));

  // accuracy_level 4 is int8: what is multiplied is rounded by blocks of 32. Others are as exact as they are.
  for (const int64_t level : {0, 1, 2, 4}) {
    std::vector<AttributeWriter> given = sizes;
    given.push_back(attr("accuracy_level", level));
    GraphWriter levelled;
    levelled.input("a", DType::f32, {1, 20}).output("y", DType::f32);
    levelled.initializer(TensorWriter("b", {2, 2, 8}, bytes)).initializer(TensorWriter("s", {4}, scales));
    levelled.node("MatMulNBits", {"a", "b", "s"}, {"y"}, given, microsoft);
    const Graph made = import_graph(levelled, 17);
    const auto rounded = std::find_if(made.nodes.begin(), made.nodes.end(),
                                      [](const Node& node) { return node.op.as<ops::RoundBlocks>(); });
    EXPECT_EQ(rounded != made.nodes.end(), level == 4);
  }

  const Tensor table = u8({2, 8}, {0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0xf0});
  const Tensor rows = run_node("GatherBlockQuantized", 17, {table, Tensor::from_ints({1, 0}), floats({2, 1}, {2, 3})},
                               {attr("block_size", 16)}, microsoft);
  EXPECT_EQ(rows.dims(), (Dims{2, 16}));
  EXPECT_EQ(rows.to_doubles()[15], 3 * (15 - 8));
  EXPECT_EQ(rows.to_doubles()[16 + 5], 2 * (5 - 8));
  EXPECT_NE(error_of_node("MatMulNBits", 17, {floats({1, 20}, row), u8({1}, {0}), number(1)}, sizes, microsoft)
                .find("32 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_quantization_test
