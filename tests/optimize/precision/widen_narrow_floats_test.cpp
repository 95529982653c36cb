#include "optimize/precision/widen_narrow_floats.h"

#include "base/float_types.h"
#include "ir/ops/pointwise.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"

namespace camshaft::widen_narrow_floats_test {
namespace {

Graph widened(const std::string& inputs, const std::string& body) {
  Graph graph = graph_of(inputs, body);
  run_pass_on_named(widen_narrow_floats, graph, test_context(), "widen_narrow_floats");
  verify(graph, "the pass under test");
  return graph;
}

// "cast:f32 matmul:f32 …": operators with what they give.
std::string outline(const Graph& graph) {
  std::string out;
  for (const Node& node : graph.nodes)
    out += (out.empty() ? "" : " ") + std::string(node.op.name()) + ":" +
           std::string(to_string(graph.type(node.outputs[0]).dtype));
  return out;
}

const std::string product = R"(
  const %w: f16[4, 4] = 0.5
  %p = matmul (%x, %w)
  %y = softmax {axis=1} (%p)
  return y=%y)";

TEST(WidenNarrowFloats, InputsAndOutputsKeepTheirTypes) {
  const Graph graph = widened("%x: f16[2, 4]", product);
  EXPECT_EQ(outline(graph), "cast:f32 matmul:f32 softmax:f32 cast:f16");
  EXPECT_EQ(graph.type(graph.inputs[0]).dtype, DType::f16);
  EXPECT_EQ(graph.type(graph.outputs[0]).dtype, DType::f16);
}

TEST(WidenNarrowFloats, Bf16Too) {
  EXPECT_EQ(outline(widened("%x: bf16[2, 4]", "%y = pointwise {function=exp} (%x)\nreturn y=%y")),
            "cast:f32 pointwise:f32 cast:bf16");
}

TEST(WidenNarrowFloats, QuantisedTensorsHaveScalesInF32) {
  const Graph graph = widened("%x: f16[2, 4]", R"(
  const %s: f16[] = 0.5
  %q = quantize {dtype=i8, precision=f16} (%x, %s)
  %d = dequantize {dtype=f16} (%q, %s)
  %p = softmax {axis=1} (%d)
  return y=%p)");
  EXPECT_EQ(outline(graph), "cast:f32 quantize:i8 dequantize:f32 softmax:f32 cast:f16");
}

TEST(WidenNarrowFloats, ResultsAreTheSameButForRounding) {
  Tensor x(DType::f16, {2, 4});
  std::vector<float> values(8);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.3F * static_cast<float>(i) - 1;
  convert_from_float(DType::f16, values.data(), x.mutable_data(), 8);
  const std::vector<double> expected = evaluate(graph_of("%x: f16[2, 4]", product), {x}, test_pool())[0].to_doubles();
  const std::vector<double> y = evaluate(widened("%x: f16[2, 4]", product), {x}, test_pool())[0].to_doubles();
  ASSERT_EQ(y.size(), expected.size());
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-3);
}

TEST(WidenNarrowFloats, WhatF16CannotHoldOnTheWayIsKept) {
  const std::string body = R"(
  %square = pointwise {function=mul} (%x, %x)
  %y = pointwise {function=sqrt} (%square)
  return y=%y)";
  Tensor x(DType::f16, {1});
  const float value = 1024;
  convert_from_float(DType::f16, &value, x.mutable_data(), 1);
  EXPECT_EQ(evaluate(widened("%x: f16[1]", body), {x}, test_pool())[0].to_doubles()[0], 1024);
}

TEST(WidenNarrowFloats, MovesStayNarrowUntilSomethingComputes) {
  EXPECT_EQ(outline(widened("%x: f16[2, 4]", R"(
  %t = transpose {permutation=[1, 0]} (%x)
  %e = pointwise {function=exp} (%t)
  %y = transpose {permutation=[1, 0]} (%e)
  return y=%y)")),
            "transpose:f16 cast:f32 pointwise:f32 transpose:f32 cast:f16");
  EXPECT_EQ(outline(widened("%x: f16[2, 4]", "%y = transpose {permutation=[1, 0]} (%x)\nreturn y=%y")),
            "transpose:f16");
}

TEST(WidenNarrowFloats, WhatIsComputedInHalvesIsNotRounded) {
  EXPECT_EQ(outline(widened("%x: f32[2, 4]", R"(
  %h = cast {to=f16} (%x)
  %e = pointwise {function=exp} (%h)
  %y = cast {to=f32} (%e)
  return y=%y)")),
            "pointwise:f32");
}

// The model asks for the rounding itself, with moves between at most; infinity is what f16 makes of 10^6.
TEST(WidenNarrowFloats, RoundTripsRound) {
  const std::string there_and_back = R"(
  %h = cast {to=f16} (%x)
  %t = transpose {permutation=[1, 0]} (%h)
  %b = cast {to=f32} (%t)
  %y = pointwise {function=mul} (%b, %b)
  return y=%y)";
  EXPECT_EQ(outline(widened("%x: f32[2, 2]", there_and_back)), "transpose:f32 cast:f16 cast:f32 pointwise:f32");
  const Tensor x = Tensor::of<float>(DType::f32, {2, 2}, {1.0004F, 0.1F, 1e6F, 3});
  EXPECT_EQ(evaluate(widened("%x: f32[2, 2]", there_and_back), {x}, test_pool())[0].to_doubles(),
            evaluate(graph_of("%x: f32[2, 2]", there_and_back), {x}, test_pool())[0].to_doubles());
  EXPECT_EQ(outline(widened("%x: f16[4]", R"(
  %b = cast {to=bf16} (%x)
  %i = cast {to=i32} (%b)
  return i=%i, b=%b)")),
            "cast:f32 cast:bf16 cast:i32");
  EXPECT_EQ(outline(widened("%x: f32[4]", R"(
  %a = cast {to=f16} (%x)
  %b = cast {to=bf16} (%a)
  %y = cast {to=f32} (%b)
  return y=%y)")),
            "cast:f16 cast:f32 cast:bf16 cast:f32");
}

TEST(WidenNarrowFloats, TextsAreRounded) {
  const std::string body = R"(
  %h = cast {to=f16} (%x)
  %y = cast {to=f32} (%h)
  return y=%y)";
  EXPECT_EQ(outline(widened("%x: string[2]", body)), "cast:f32 cast:f16 cast:f32");
  Tensor x(DType::string, {2});
  x.as_mutable<std::string>()[0] = "1.0004";
  x.as_mutable<std::string>()[1] = "-2";
  EXPECT_EQ(evaluate(widened("%x: string[2]", body), {x}, test_pool())[0].to_doubles(),
            evaluate(graph_of("%x: string[2]", body), {x}, test_pool())[0].to_doubles());
}

// 2^100 is infinity of f16, and 2^-60 is 0.
TEST(WidenNarrowFloats, PowersOfTwoAreRounded) {
  const auto body = [](const std::string& half) {
    return "%h = cast {to=" + half + "} (%x)\n%y = cast {to=f32} (%h)\nreturn y=%y";
  };
  EXPECT_EQ(outline(widened("%x: f8e8m0[3]", body("f16"))), "cast:f32 cast:f16 cast:f32");
  EXPECT_EQ(outline(widened("%x: f8e8m0[3]", body("bf16"))), "cast:f32");
}

// A half has all of a mask and of a byte, and what it computes is as wide as it is computed.
TEST(WidenNarrowFloats, ConversionsThatChangeNothingAreNone) {
  EXPECT_EQ(outline(widened("%x: bool[4]", R"(
  %h = cast {to=f16} (%x)
  %y = cast {to=f32} (%h)
  return y=%y)")),
            "cast:f32");
  EXPECT_EQ(outline(widened("%x: f16[4]", R"(
  %e = pointwise {function=exp} (%x)
  %f = cast {to=f32} (%e)
  %h = cast {to=f16} (%f)
  %y = pointwise {function=exp} (%h)
  return y=%y)")),
            "cast:f32 pointwise:f32 pointwise:f32 cast:f16");
}

TEST(WidenNarrowFloats, ConversionsOfHalvesToOthersReadThemAsTheyAre) {
  EXPECT_EQ(outline(widened("%x: f16[4]", "%y = cast {to=i32} (%x)\nreturn y=%y")), "cast:i32");
  const Graph graph = widened("%x: f16[4]", R"(
  %e = pointwise {function=exp} (%x)
  %y = cast {to=f8e4m3, saturate=false} (%e)
  return y=%y)");
  EXPECT_EQ(outline(graph), "cast:f32 pointwise:f32 cast:f8e4m3");
  EXPECT_FALSE(graph.nodes.back().op.as<ops::Cast>()->saturate);
}

TEST(WidenNarrowFloats, AnInputThatIsAnOutput) {
  const Graph graph = widened("%x: f16[4]", R"(
  %e = pointwise {function=exp} (%x)
  return x=%x, e=%e, again=%e)");
  EXPECT_EQ(outline(graph), "cast:f32 pointwise:f32 cast:f16");
  EXPECT_EQ(graph.outputs[0], graph.inputs[0]);
  EXPECT_EQ(graph.outputs[1], graph.outputs[2]);
}

TEST(WidenNarrowFloats, OperatorsWithoutKernelsKeepTheirTypes) {
  EXPECT_EQ(outline(widened("%x: f16[4]", R"(
  %e = pointwise {function=exp} (%x)
  %y = bit_cast {to=i16} (%e)
  return y=%y)")),
            "cast:f32 pointwise:f32 cast:f16 bit_cast:i16");
}

TEST(WidenNarrowFloats, BranchesAreWidenedWithin) {
  const Graph graph = widened("%c: bool[], %x: f16[4]", R"(
  %y = if {} (%c, %x)
    graph "then" (%x: f16[4]) {
      %e = pointwise {function=exp} (%x)
      return "e" = %e
    }
    graph "else" (%x: f16[4]) {
      return "x" = %x
    }
  return y=%y)");
  EXPECT_EQ(outline(graph), "if:f16");
  EXPECT_EQ(outline(graph.nodes[0].bodies[0]), "cast:f32 pointwise:f32 cast:f16");
}

TEST(WidenNarrowFloats, NothingToDo) {
  const std::string body = "%y = pointwise {function=exp} (%x)\nreturn y=%y";
  EXPECT_TRUE(equal(widened("%x: f32[4]", body), graph_of("%x: f32[4]", body)));
}

}  // namespace
}  // namespace camshaft::widen_narrow_floats_test
