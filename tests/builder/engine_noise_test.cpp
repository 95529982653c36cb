// What an engine's own rounding excuses, and what it does not.
#include "builder/engine_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "builder/compile_graph.h"
#include "builder/engine_tensors.h"
#include "builder/verdict.h"
#include "builder/verify_engine.h"
#include "ir/ops/contract.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/text.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"
#include "test_random.h"

namespace camshaft::engine_noise_test {
namespace {

Engine compiled(const Graph& graph, const std::string& tactic_of_first = "") {
  CompileOptions options;
  options.decisions.resize(graph.nodes.size());
  options.decisions[0].tactic = tactic_of_first;
  return compile_graph(graph, find_backend("cpu"), options);
}

// Rows of small numbers, normalised; `lines` make %read of %x.
Graph normalised(const std::string& lines) {
  return parse_graph(R"(graph "small" (%x: f32[4, 64]) {
  const %tiny: f32[] = 1e-06
  const %shift: f32[] = 1.5e-08
  const %epsilon: f32[] = 1e-20
)" + lines + R"(
  %squares = pointwise {function=mul} (%read, %read) from "Square"
  %mean = reduce {kind=mean, axes=[1], keep_dims=true} (%squares) from "Mean"
  %bounded = pointwise {function=add} (%mean, %epsilon) from "Bound"
  %root = pointwise {function=sqrt} (%bounded) from "Root"
  %y = pointwise {function=div} (%read, %root) from "Divide"
  return "y" = %y
})",
                     operators());
}

VerifyOptions of_f16() {
  VerifyOptions options;
  options.tolerance = options.sensitivity_above = 0.02;
  options.rounding_noise = 0x1p-11;
  return options;
}

// A class token of DeiT-3: f16 has steps of 6e-8 there, which its norm makes large.
TEST(EngineNoise, WhatF16HasNoFinerStepsForIsExcusedWhereItIsStored) {
  const Graph model = normalised(R"(  %read = pointwise {function=mul} (%x, %tiny) from "Scale")");
  // As the result of a step, and by a cast behind it.
  const Graph stored = normalised(R"(  %scaled = pointwise {function=mul} (%x, %tiny) from "Scale"
  %read_0 = cast {to=f16} (%scaled) from "Scale"
  %read = cast {to=f32} (%read_0))");
  const Graph narrowed = normalised(R"(  %read_0 = pointwise {function=mul} (%x, %tiny) from "Scale"
  %read_1 = cast {to=f16} (%read_0)
  %read = cast {to=f32} (%read_1))");
  const Graph wrong = normalised(R"(  %scaled = pointwise {function=mul} (%x, %tiny) from "Scale"
  %read = pointwise {function=add} (%scaled, %shift) from "Scale")");
  ThreadPool pool(2);
  double error = 0;
  for (const Graph& graph : {stored, narrowed}) {
    const VerifyResult right = verify_engine(model, compiled(graph), of_f16(), pool);
    EXPECT_TRUE(right.passed) << right.outputs[0].doubt;
    error = right.outputs[0].relative();
    EXPECT_GT(error, 0.004) << "more than results of this precision move";
  }
  // As large an error of an engine that stores no f16.
  const VerifyResult refused = verify_engine(model, compiled(wrong), of_f16(), pool);
  EXPECT_FALSE(refused.passed);
  EXPECT_LT(refused.outputs[0].relative(), 2 * error);
}

// A cast that a pass adds behind %view takes a name with a number, which the model has for another value.
TEST(SharedValues, AreNotTakenByNameAlone) {
  const Graph model = parse_graph(R"(graph "named" (%x: f32[4]) {
  %view = pointwise {function=neg} (%x) from "View"
  %view_1 = pointwise {function=exp} (%view) from "View_1"
  return "y" = %view_1
})",
                                  operators());
  const Engine engine = compiled(parse_graph(R"(graph "named" (%x: f32[4]) {
  %view = pointwise {function=neg} (%x) from "View"
  %view_1 = cast {to=f16} (%view)
  %view_2 = cast {to=f32} (%view_1)
  %view_1_1 = pointwise {function=exp} (%view_2) from "View_1"
  return "y" = %view_1_1
})",
                                             operators()));
  const Plan& plan = engine.impl()->plan;
  std::map<std::string, std::string> planned;
  for (const SharedValue& shared : shared_values(model, plan))
    planned[model.value(shared.id).name] = plan.values[static_cast<size_t>(shared.planned)].name;
  EXPECT_EQ(planned, (std::map<std::string, std::string>{{"view", "view"}, {"view_1", "view_1_1"}}));
}

// A convolution beside a branch that adds `part` of it, rows of whose weights are shifted by `rows`.
Graph beside_branch(Random random, float part, int64_t rows) {
  constexpr int64_t size = 16, channels = 32;
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, {1, size, size, channels}});
  const auto drawn = [&](const Dims& dims, float most) {
    Tensor made(DType::f32, dims);
    for (int64_t i = 0; i < made.size(); ++i)
      made.as_mutable<float>()[i] = most * static_cast<float>(random.uniform(-1, 1));
    return made;
  };
  ops::Conv conv;
  conv.strides = conv.dilations = {1, 1};
  conv.pads = {1, 1, 1, 1};
  conv.channels_last = true;
  const ValueId w = graph.add_constant("w", drawn({channels, channels, 3, 3}, 1));
  Tensor m = drawn({channels, channels}, part);
  std::rotate(m.as_mutable<float>(), m.as_mutable<float>() + rows * channels, m.as_mutable<float>() + m.size());
  const ValueId c = graph.add(conv, {x, w}, "c");
  const ValueId p = graph.add(ops::MatMul{}, {x, graph.add_constant("m", std::move(m))}, "p");
  graph.add_output("y", graph.add(ops::Pointwise{ScalarFunction::add}, {c, p}, "y"));
  for (Node& node : graph.nodes) node.sources = {graph.value(node.outputs[0]).name};
  return graph;
}

TEST(EngineNoise, ApproximateTacticsExcuseTheirOwnRoundingAlone) {
  const Random random = test_random();
  const Graph model = beside_branch(random, 3e-5F, 0);
  const Engine right = compiled(model, "winograd(tile=4)");
  ASSERT_EQ(right.impl()->plan.steps[0].deviation, Deviation::rounding);
  const VerifyOptions options;
  ThreadPool pool(2);
  const VerifyResult passed = verify_engine(model, right, options, pool);
  EXPECT_TRUE(passed.passed) << passed.outputs[0].doubt;
  EXPECT_TRUE(has_margin(passed, options.tolerance, options.excused));
  const VerifyResult wrong =
      verify_engine(model, compiled(beside_branch(random, 3e-5F, 1), "winograd(tile=4)"), options, pool);
  EXPECT_FALSE(wrong.passed);
  EXPECT_LT(wrong.outputs[0].relative(), approximate_share * options.tolerance) << "held to that alone, it passes";
  EXPECT_FALSE(has_margin(wrong, options.tolerance, options.excused)) << "what fails is made without";
}

TEST(EngineNoise, WeightsMoveOnce) {
  const Graph model = beside_branch(test_random(), 1, 0);
  const Graph noisy = with_noisy_weights(model, 0x1p-8, 1);
  for (const Node& node : model.nodes)
    for (const ValueId id : node.inputs) {
      if (!model.is_constant(id)) continue;
      const Tensor &was = *model.value(id).constant, &is = *noisy.value(id).constant;
      for (int64_t i = 0; i < was.size(); ++i)
        ASSERT_NEAR(std::fabs(is.as<float>()[i] / was.as<float>()[i] - 1), 0x1p-8, 1e-6) << i;
    }
}

TEST(EngineNoise, IsOfTheNodesThatRoundMore) {
  const Graph model = beside_branch(test_random(), 1, 0);
  const EngineNoise approximate(model, compiled(model, "winograd(tile=4)")), plain(model, compiled(model, "conv"));
  const RoundingNoise noise{0x1p-22, 0x1p-26};
  for (const Node& node : model.nodes) {
    const bool is_conv = node.op.as<ops::Conv>();
    EXPECT_EQ(approximate.of(node, noise).of_sums, is_conv ? 0x1p-25 : 0x1p-26);
    EXPECT_EQ(plain.of(node, noise).of_sums, 0x1p-26);
    EXPECT_EQ(approximate.of(node, noise).of_results, 0x1p-22);
    EXPECT_EQ(approximate.of(node, noise).least, 0);
  }
  EXPECT_NE(approximate.key(), plain.key());
  EXPECT_EQ(plain.key(), EngineNoise(model, compiled(model, "conv")).key());
}

// An engine in f32 whose products may round their operands: what they give is no less precise than f32 has it.
TEST(EngineNoise, ProductsRoundTheirOperandsAlone) {
  const Graph model = parse_graph(R"(graph "products" (%x: f32[4, 2], %z: f32[4, 2]) {
  const %w: f32[2, 2] = [1, 2, 3, 4]
  %moved = transpose {permutation=[0, 1]} (%x) from "Moved"
  %first = matmul {rounding=bf16} (%moved, %w) from "First"
  %between = pointwise {function=add} (%first, %z) from "Between"
  %second = matmul {rounding=bf16} (%between, %w) from "Second"
  return "y" = %second
})",
                                  operators());
  const EngineNoise noise(model, compiled(model));
  EXPECT_FALSE(noise.stores_narrow());
  const RoundingNoise bf16{0x1p-8, 0};
  const auto value = [&](std::string_view name) {
    for (size_t id = 0; id < model.values.size(); ++id)
      if (model.values[id].name == name) return static_cast<ValueId>(id);
    return no_value;
  };
  const auto seen = [&](std::string_view name) { return noise.of(value(name), bf16).of_results; };
  const auto own = [&](std::string_view name) { return noise.of_result(value(name), bf16).of_results; };
  for (const char* operand : {"x", "moved", "between"}) {
    EXPECT_EQ(seen(operand), 0x1p-8) << operand;
    EXPECT_EQ(own(operand), 0x1p-22) << operand;
  }
  for (const char* other : {"z", "first", "second"}) EXPECT_EQ(seen(other), 0x1p-22) << other;
}

// One percent is within what bf16 rounds by, but only operands of products are rounded.
TEST(EngineNoise, WhatBf16DoesNotRoundMustBeRight) {
  const Random random = test_random();
  const auto graph = [&](float factor) {
    Graph made;
    const ValueId x = made.add_input("x", {DType::f32, {16, 64}});
    Tensor w(DType::f32, {64, 64});
    Random drawn = random;
    for (int64_t i = 0; i < w.size(); ++i) w.as_mutable<float>()[i] = static_cast<float>(drawn.uniform(-1, 1));
    ops::MatMul product;
    product.rounding = ops::Rounding::bf16;
    const ValueId p = made.add(product, {x, made.add_constant("w", std::move(w))}, "p");
    const ValueId f = made.add_constant("f", Tensor::of<float>(DType::f32, {}, {factor}));
    made.add_output("p", p);
    made.add_output("y", made.add(ops::Pointwise{ScalarFunction::mul}, {p, f}, "y"));
    for (Node& node : made.nodes) node.sources = {made.value(node.outputs[0]).name};
    return made;
  };
  VerifyOptions options;
  options.tolerance = options.sensitivity_above = 0.1;
  options.rounding_noise = 0x1p-8;
  ThreadPool pool(2);
  EXPECT_TRUE(verify_engine(graph(2), compiled(graph(2)), options, pool).passed);
  EXPECT_FALSE(verify_engine(graph(2), compiled(graph(2.02F)), options, pool).passed);
}

}  // namespace
}  // namespace camshaft::engine_noise_test
