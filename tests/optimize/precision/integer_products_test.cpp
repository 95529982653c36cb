#include "optimize/precision/integer_products.h"

#include <cmath>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "optimize/analysis/match.h"
#include "optimize/pass_test.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::integer_products_test {
namespace {

TEST(IntegerProducts, ConvolutionWithBiasAndReluOfUnsignedSteps) {
  expect_pass(integer_products, R"(const %sx: f32[] = 0.5
    const %zx: u8[] = 3
    const %w: i8[2, 3, 1, 1] = [1, 2, 3, 4, 5, 6]
    const %sw: f32[2] = [0.25, 0.5]
    const %b: i32[2] = [7, -8]
    const %sb: f32[2] = [0.125, 0.25]
    const %sy: f32[] = 2
    const %none: f32[] = 0
    %xf = dequantize (%x, %sx, %zx)
    %wf = dequantize {axis=0} (%w, %sw)
    %bf = dequantize {axis=0} (%b, %sb)
    %c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%xf, %wf, %bf)
    %r = pointwise {function=max} (%c, %none)
    %y = quantize {dtype=u8} (%r, %sy)
    return "y" = %y)",
              R"(const %sx: f32[] = 0.5
    const %zx: u8[] = 3
    const %w: i8[2, 3, 1, 1] = [1, 2, 3, 4, 5, 6]
    const %sw: f32[2] = [0.25, 0.5]
    const %b: i32[2] = [7, -8]
    const %sy: f32[] = 2
    %i = integer_conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w, %zx, -, %b)
    %s = cast {to=f32} (%i)
    %column = reshape {shape=shape(2, 1, 1)} (%sw)
    %scale = pointwise {function=mul} (%sx, %column)
    %factor = pointwise {function=div} (%scale, %sy)
    %steps = pointwise {function=mul} (%s, %factor)
    const %unit: f32[] = 1
    %y = quantize {dtype=u8} (%steps, %unit)
    return "y" = %y)",
              "%x: u8[1, 3, 4, 4]");
}

TEST(IntegerProducts, AProductWithColumnsAndABoundThatCounts) {
  expect_pass(integer_products, R"(const %sx: f32[] = 0.5
    const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %sw: f32[2] = [0.25, 0.5]
    const %sy: f32[] = 2
    const %zy: i8[] = 1
    const %most: f32[] = 6
    %xf = dequantize (%x, %sx)
    %wf = dequantize {axis=0} (%w, %sw)
    %c = matmul {transpose_b=true} (%xf, %wf)
    %r = pointwise {function=min} (%c, %most)
    %y = quantize {dtype=i8} (%r, %sy, %zy)
    return "y" = %y)",
              R"(const %sx: f32[] = 0.5
    const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %sw: f32[2] = [0.25, 0.5]
    const %sy: f32[] = 2
    const %zy: i8[] = 1
    const %most: f32[] = 6
    %columns = transpose {permutation=[1, 0]} (%w)
    %i = integer_matmul (%x, %columns, -, -)
    %s = cast {to=f32} (%i)
    %scale = pointwise {function=mul} (%sx, %sw)
    %factor = pointwise {function=div} (%scale, %sy)
    %steps = pointwise {function=mul} (%s, %factor)
    %bound = pointwise {function=div} (%most, %sy)
    %bounded = pointwise {function=min} (%steps, %bound)
    const %unit: f32[] = 1
    %y = quantize {dtype=i8} (%bounded, %unit, %zy)
    return "y" = %y)",
              "%x: i8[5, 3]");
}

// As a Gemm has its weights.
TEST(IntegerProducts, WeightsTransposedBehindTheirDequantize) {
  expect_pass(integer_products, R"(const %sx: f32[] = 0.5
    const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %sw: f32[2] = [0.25, 0.5]
    %xf = dequantize (%x, %sx)
    %wf = dequantize {axis=0} (%w, %sw)
    %t = transpose {permutation=[1, 0]} (%wf)
    %y = matmul (%xf, %t)
    return "y" = %y)",
              R"(const %sx: f32[] = 0.5
    const %w: i8[2, 3] = [1, 2, 3, 4, 5, 6]
    const %sw: f32[2] = [0.25, 0.5]
    %columns = transpose {permutation=[1, 0]} (%w)
    %i = integer_matmul (%x, %columns, -, -)
    %s = cast {to=f32} (%i)
    %scale = pointwise {function=mul} (%sx, %sw)
    %y = pointwise {function=mul} (%s, %scale)
    return "y" = %y)",
              "%x: i8[5, 3]");
}

TEST(IntegerProducts, OthersStay) {
  // Sums beyond i32; scales by rows; weights of another type.
  expect_unchanged(integer_products, R"(const %s: f32[] = 0.5
    const %w: u8[70000, 1] = 255
    %a = dequantize (%x, %s)
    %b = dequantize (%w, %s)
    %y = matmul (%a, %b)
    return "y" = %y)",
                   "%x: u8[1, 70000]");
  expect_unchanged(integer_products, R"(const %s: f32[3] = [0.5, 1, 2]
    const %w: i8[3, 2] = [1, 2, 3, 4, 5, 6]
    const %one: f32[] = 0.5
    %a = dequantize (%x, %one)
    %b = dequantize {axis=0} (%w, %s)
    %y = matmul (%a, %b)
    return "y" = %y)",
                   "%x: u8[1, 3]");
  expect_unchanged(integer_products, R"(const %s: f32[] = 0.5
    const %w: i16[3, 2] = [1, 2, 3, 4, 5, 6]
    %a = dequantize (%x, %s)
    %b = dequantize (%w, %s)
    %y = matmul (%a, %b)
    return "y" = %y)",
                   "%x: u8[1, 3]");
}

TEST(IntegerProducts, AQuantizeOfWhatOthersReadKeepsItsScale) {
  const Graph graph = run_pass(integer_products, graph_text("%x: u8[4, 3]", R"(const %s: f32[] = 0.5
    const %w: i8[3, 2] = [1, 2, 3, 4, 5, 6]
    %a = dequantize (%x, %s)
    %b = dequantize (%w, %s)
    %c = matmul (%a, %b)
    %y = quantize {dtype=u8} (%c, %s)
    return "y" = %y, "c" = %c)"));
  for (const Node& node : graph.nodes) {
    EXPECT_FALSE(node.op.as<ops::Dequantize>()) << print(graph);
    if (node.op.as<ops::Quantize>()) {
      EXPECT_EQ(uniform_constant(graph, node.inputs[1]), 0.5);
    }
  }
}

Tensor random_tensor(Random& random, DType dtype, const Dims& dims, double low, double high) {
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.size(); ++i) {
    const double value = random.uniform(low, high);
    ops::store_elements(dtype, t.mutable_data(), i, 1, 1, &value);
  }
  return t;
}

// Steps as the model means them and as the pass computes them, over types, zero points, biases and bounds.
TEST(IntegerProducts, WithinOneStepOfTheModel) {
  Random random = test_random();
  for (int round = 0; round < 200; ++round) {
    Graph graph;
    const DType of_x = random.integer(0, 1) ? DType::u8 : DType::i8,
                of_w = random.integer(0, 1) ? DType::u8 : DType::i8;
    const DType of_y = random.integer(0, 1) ? DType::u8 : DType::i8;
    const auto range = [](DType t) { return ops::step_range(t); };
    const int64_t in = random.integer(1, 9), out = random.integer(1, 5);
    const bool is_conv = random.integer(0, 1), by_channel = random.integer(0, 1);
    const auto constant = [&](const char* name, Tensor t) { return graph.add_constant(name, std::move(t)); };
    const auto zero = [&](DType t, bool vector) {
      const Dims dims = vector ? Dims{out} : Dims{};
      return constant("z", random_tensor(random, t, dims, range(t).lowest, range(t).highest));
    };
    const double x_size = random.uniform(0.01, 1);
    const Dims x_dims = is_conv ? Dims{2, in, 5, 4} : Dims{3, 7, in};
    const Dims w_dims = is_conv ? Dims{out, in, 3, 2} : Dims{in, out};
    const ValueId x = graph.add_input("x", {of_x, Shape(x_dims.begin(), x_dims.end())});
    const ValueId w = constant("w", random_tensor(random, of_w, w_dims, range(of_w).lowest, range(of_w).highest));
    const Tensor scales = random_tensor(random, DType::f32, by_channel ? Dims{out} : Dims{}, 0.01, 1);
    const ValueId x_scale = constant("s", Tensor::scalar(DType::f32, x_size)), w_scale = constant("s", scales);
    std::vector<ValueId> of_weights{w, w_scale};
    if (random.integer(0, 1)) of_weights.push_back(zero(of_w, by_channel));
    std::vector<ValueId> operands{graph.add(ops::Dequantize{}, {x, x_scale, zero(of_x, false)}, "xf"),
                                  graph.add(ops::Dequantize{.axis = is_conv || !by_channel ? 0 : 1}, of_weights, "wf")};
    const int64_t bias = is_conv ? random.integer(0, 2) : 0;
    if (bias == 1) {  // in steps of the product of the scales
      Tensor sizes(DType::f32, {out});
      for (int64_t i = 0; i < out; ++i)
        sizes.as_mutable<float>()[i] = static_cast<float>(x_size) * scales.as<float>()[by_channel ? i : 0];
      operands.push_back(graph.add(
          ops::Dequantize{.axis = 0},
          {constant("b", random_tensor(random, DType::i32, {out}, -2000, 2000)), constant("s", sizes)}, "bf"));
    } else if (bias == 2) {
      operands.push_back(constant("b", random_tensor(random, DType::f32, {out}, -9, 9)));
    }
    ValueId y = is_conv ? graph.add(ops::Conv{{1, 1}, {1, 0, 2, 1}, {1, 1}}, operands, "c")
                        : graph.add(ops::MatMul{}, operands, "c");
    const double size = random.uniform(1, 40) * x_size;
    for (int64_t i = random.integer(0, 2); i > 0; --i) {
      const double bound = random.uniform(-300, 300) * size;
      y = graph.add(ops::Pointwise{random.integer(0, 1) ? ScalarFunction::max : ScalarFunction::min},
                    {y, constant("m", Tensor::scalar(DType::f32, bound))}, "m");
    }
    y = graph.add(ops::Quantize{.dtype = of_y}, {y, constant("s", Tensor::scalar(DType::f32, size)), zero(of_y, false)},
                  "y");
    graph.add_output("y", y);
    Graph changed = graph;
    integer_products(changed, test_context());
    verify(changed, "the pass under test");
    for (const Node& node : changed.nodes)
      ASSERT_FALSE(node.op.as<ops::Conv>() || node.op.as<ops::MatMul>()) << print(graph);
    const std::vector<Tensor> inputs{random_tensor(random, of_x, x_dims, range(of_x).lowest, range(of_x).highest)};
    const Tensor wanted = evaluate(graph, inputs, test_pool())[0], got = evaluate(changed, inputs, test_pool())[0];
    ASSERT_EQ(got.dims(), wanted.dims());
    int64_t different = 0;
    for (int64_t i = 0; i < wanted.size(); ++i) {
      double a = 0, b = 0;
      ops::load_elements(of_y, got.data(), i, 1, 1, &a);
      ops::load_elements(of_y, wanted.data(), i, 1, 1, &b);
      ASSERT_LE(std::abs(a - b), 1) << print(graph);
      different += a != b;
    }
    EXPECT_LE(different, 1 + wanted.size() / 100) << print(graph);
  }
}

}  // namespace
}  // namespace camshaft::integer_products_test
