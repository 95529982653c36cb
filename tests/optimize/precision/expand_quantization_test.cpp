#include "optimize/precision/expand_quantization.h"

#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/pass_test.h"
#include "optimize/pipeline.h"
#include "optimize/precision/keep_activations.h"
#include "reference/element_io.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::expand_quantization_test {
namespace {

TEST(ExpandQuantization, OneNumber) {
  expect_pass(expand_quantization, R"(const %s: f32[] = 0.5
    const %z: u8[] = 3
    %q = quantize {dtype=u8} (%x, %s, %z)
    %y = dequantize {dtype=f32} (%q, %s, %z)
    return "y" = %y)",
              R"(const %s: f32[] = 0.5
    const %z: u8[] = 3
    %d = pointwise {function=div} (%x, %s)
    %r = pointwise {function=round} (%d)
    %zero = cast {to=f32} (%z)
    %a = pointwise {function=add} (%r, %zero)
    %q = cast {to=u8} (%a)
    %w = cast {to=f32} (%q)
    %zero2 = cast {to=f32} (%z)
    %t = pointwise {function=sub} (%w, %zero2)
    %y = pointwise {function=mul} (%t, %s)
    return "y" = %y)");
}

TEST(ExpandQuantization, OneNumberAnIndexOfAnAxis) {
  expect_pass(expand_quantization, R"(const %s: f32[2] = [0.5, 1]
    %y = dequantize {axis=0} (%x, %s)
    return "y" = %y)",
              R"(const %s: f32[2] = [0.5, 1]
    %column = reshape {shape=shape(2, 1)} (%s)
    %w = cast {to=f32} (%x)
    %y = pointwise {function=mul} (%w, %column)
    return "y" = %y)",
              "%x: i8[2, 3]");
}

TEST(ExpandQuantization, BodiesToo) {
  const Graph graph = run_pass(expand_quantization, R"(graph "g" (%c: bool[], %x: f32[3]) {
    const %s: f32[] = 0.5
    %y = if (%c, %x, %s)
      graph (%a: f32[3], %b: f32[]) {
        %q = quantize {dtype=i8} (%a, %b)
        %d = dequantize (%q, %b)
        return %d
      }
      graph (%a: f32[3], %b: f32[]) {
        return %a
      }
    return "y" = %y
  })");
  for (const Node& node : graph.nodes[0].bodies.at(0).nodes) EXPECT_FALSE(node.op.as<ops::Quantize>());
  EXPECT_GT(graph.nodes[0].bodies[0].nodes.size(), 2U);
}

Tensor random_tensor(Random& random, DType dtype, const Dims& dims, double low, double high) {
  Tensor t(dtype, dims);
  for (int64_t i = 0; i < t.size(); ++i) {
    const double value = random.uniform(low, high);
    ops::store_elements(dtype, t.mutable_data(), i, 1, 1, &value);
  }
  return t;
}

// The two are written down apart from each other: the reference by what ONNX says, the expansion by what fuses.
void expect_same_numbers(const Op& op, const std::vector<Tensor>& inputs) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& t : inputs)
    ids.push_back(graph.add_input("x", {t.dtype(), Shape(t.dims().begin(), t.dims().end())}));
  graph.add_output("y", graph.add(op, ids, "y"));
  Graph expanded = graph;
  expand_quantization(expanded, test_context());
  verify(expanded, "the expansion");
  std::string operands;
  for (const Tensor& t : inputs) operands += std::string(" ") + std::string(to_string(t.dtype())) + to_string(t.dims());
  EXPECT_EQ(evaluate(graph, inputs, test_pool()), evaluate(expanded, inputs, test_pool()))
      << to_string(op) << " of" << operands;
}

TEST(ExpandQuantization, ComputesWhatTheOperatorsDo) {
  Random random = test_random();
  struct Layout {
    Dims x, parameter;
    int64_t axis, block;
  };
  const Layout layouts[] = {{{2, 6}, {}, 0, 0},      {{2, 6}, {6}, 1, 0},          {{2, 6}, {2}, 0, 0},
                            {{3, 10}, {3, 3}, 1, 4}, {{2, 5, 4}, {1, 3, 4}, 1, 2}, {{7}, {3}, 0, 3},
                            {{2, 6}, {2, 1}, 1, 6},  {{2, 6}, {2, 6}, 1, 0}};
  for (const DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u4, DType::i4, DType::u2, DType::i2,
                            DType::f8e4m3, DType::f8e5m2, DType::f8e4m3fnuz, DType::f8e5m2fnuz, DType::f4e2m1})
    for (const Layout& layout : layouts)
      for (const DType real : {DType::f32, DType::f16, DType::bf16}) {
        const double span = is_integer(dtype) ? 1.5 * (1 << std::min(bit_width(dtype), 8)) : 500;
        const Tensor x = random_tensor(random, real, layout.x, -span, span);
        const Tensor scale = random_tensor(random, real, layout.parameter, 0.25, 2);
        std::vector<Tensor> inputs{x, scale};
        if (is_integer(dtype) && random.integer(0, 1) == 1)
          inputs.push_back(random_tensor(random, dtype, layout.parameter, is_signed(dtype) ? -2 : 0, 2));
        for (const DType precision : {real, DType::f32})
          expect_same_numbers(ops::Quantize{dtype, layout.axis, layout.block, precision}, inputs);
        inputs[0] = random_tensor(random, dtype, layout.x, is_signed(dtype) ? -span : 0, span);
        expect_same_numbers(ops::Dequantize{real, layout.axis, layout.block}, inputs);
      }
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor odd = Tensor::of<float>(DType::f32, {6}, {infinity, -infinity, nan, 0.5F, -0.0F, 1e30F});
  for (const DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u4, DType::i4, DType::u2, DType::i2,
                            DType::f8e4m3, DType::f8e5m2, DType::f4e2m1})
    for (const bool saturate : {true, false})
      expect_same_numbers(ops::Quantize{.dtype = dtype, .saturate = saturate}, {odd, Tensor::scalar(DType::f32, 1)});
  const Tensor wide = Tensor::of<int32_t>(DType::i32, {3}, {INT32_MIN, (1 << 24) + 1, 5});
  expect_same_numbers(ops::Dequantize{}, {wide, Tensor::scalar(DType::f32, 0.3), Tensor::scalar(DType::i32, 7)});
}

TEST(ExpandQuantization, RoundingByBlocks) {
  Random random = test_random();
  for (const Dims& dims : {Dims{64}, Dims{3, 32}, Dims{2, 3, 70}, Dims{2, 5}, Dims{0, 40}})
    for (const double span : {1.0, 1e-37, 1e37}) {
      const Tensor x = random_tensor(random, DType::f32, dims, -span, span);
      for (const int64_t block : {1, 16, 32}) expect_same_numbers(ops::RoundBlocks{block}, {x});
    }
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Graph graph;
  graph.add_output("y", graph.add(ops::RoundBlocks{2}, {graph.add_input("x", {DType::f32, {8}})}, "y"));
  expand_quantization(graph, test_context());
  const Tensor odd = Tensor::of<float>(DType::f32, {8}, {1, infinity, nan, 2, 0, 0, -infinity, 3});
  const std::vector<double> y = evaluate(graph, {odd}, test_pool())[0].to_doubles();
  for (const size_t i : {0, 1, 2, 3, 6, 7}) EXPECT_TRUE(std::isnan(y[i])) << i;
  EXPECT_EQ(y[4], 0);
}

TEST(KeepActivations, TakesWhatIsNotRounded) {
  expect_pass(keep_activations, R"(%r = round_blocks {block=32} (%x)
    %y = pointwise {function=neg} (%r)
    return "y" = %y)",
              R"(%y = pointwise {function=neg} (%x)
    return "y" = %y)",
              "%x: f32[n, 64]");
}

// Weights stay narrow until they are expanded, and fold then.
TEST(ExpandQuantization, WeightsFoldBehindItOnly) {
  const std::string text = R"(graph "g" (%x: f32[2, 2]) {
    const %w: i8[2, 2] = [1, 2, 3, 4]
    const %s: f32[2] = [0.5, 1]
    %d = dequantize {axis=1} (%w, %s)
    %y = matmul (%x, %d)
    return "y" = %y
  })";
  const auto constants = [](const Graph& graph, DType dtype) {
    return std::count_if(graph.values.begin(), graph.values.end(),
                         [&](const Value& v) { return v.constant && v.type.dtype == dtype; });
  };
  const Graph folded = run_pass(fold_constants, text);
  EXPECT_EQ(folded.nodes.size(), 2U);
  EXPECT_EQ(constants(folded, DType::i8), 1);
  Graph whole = parse_graph(text, operators());
  run_passes(whole, {expand_quantization_pass, canonicalization()}, test_context());
  EXPECT_EQ(whole.nodes.size(), 1U) << print(whole);
  EXPECT_EQ(constants(whole, DType::i8), 0);
}

}  // namespace
}  // namespace camshaft::expand_quantization_test
