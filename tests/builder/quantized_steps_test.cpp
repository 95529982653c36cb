// Quantised engines in narrow types: values that another rounding moved across the edge between two steps are right,
// others that are a step off are not.
#include <gtest/gtest.h>

#include <algorithm>

#include "builder/compile_graph.h"
#include "builder/verify_engine.h"
#include "compile/tactic.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"
#include "test_random.h"

namespace camshaft::quantized_steps_test {
namespace {

using F = ScalarFunction;

constexpr int64_t rows = 64, columns = 64;
constexpr float step = 0.25F;

struct Engineered {
  bool in_f16 = false;  // the product and the result pass through f16, where the model has no name for them
  float shift = 0;      // steps that are added to `shifted` columns
  int64_t shifted = 0;
  float factor = 1;          // of the weights
  float before = 0;          // part of a step by which numbers are off before they are rounded
  bool moves_steps = false;  // the engine says of its tactics that they do that
};

// A product, quantised and dequantised: y = step * (round(x · w / step) + shift), and the steps themselves in i8.
Graph quantized(Random random, const Engineered& engineered) {
  Graph graph;
  const auto apply = [&](F function, ValueId x, ValueId by, const std::string& name) {
    return graph.add(ops::Pointwise{function}, by == no_value ? std::vector{x} : std::vector{x, by}, name, {name});
  };
  const auto narrow = [&](ValueId x, const std::string& name) {
    if (!engineered.in_f16) return x;
    const ValueId half = graph.add(ops::Cast{DType::f16}, {x}, name + "_half", {name});
    return graph.add(ops::Cast{DType::f32}, {half}, name + "_widened", {name});
  };
  const ValueId x = graph.add_input("x", {DType::f32, {rows, columns}});
  Tensor weights(DType::f32, {columns, columns}), shift(DType::f32, {columns});
  for (int64_t i = 0; i < weights.size(); ++i)
    weights.as_mutable<float>()[i] = engineered.factor * static_cast<float>(random.uniform(-2, 2));
  for (int64_t i = 0; i < columns; ++i) shift.as_mutable<float>()[i] = i < engineered.shifted ? engineered.shift : 0;
  const ValueId size = graph.add_constant("size", Tensor::of<float>(DType::f32, {}, {step}));
  ValueId made = graph.add(ops::MatMul{}, {x, graph.add_constant("w", std::move(weights))}, "product", {"product"});
  made = apply(F::div, narrow(made, "product"), size, "scaled");
  if (engineered.before != 0)
    made = apply(F::add, made, graph.add_constant("before", Tensor::scalar(DType::f32, engineered.before)), "moved");
  made = apply(F::round, made, no_value, "rounded");
  made = apply(F::add, made, graph.add_constant("shift", std::move(shift)), "shifted");
  const ValueId steps = graph.add(ops::Cast{DType::i8}, {made}, "steps", {"steps"});
  made = narrow(apply(F::mul, made, size, "dequantized"), "dequantized");
  graph.add_output("y", apply(F::neg, made, no_value, "y"));
  graph.add_output("steps", steps);
  return graph;
}

VerifyResult verify(const Random& random, const Engineered& engineered, double tolerance, double noise) {
  VerifyOptions options;
  options.tolerance = options.sensitivity_above = tolerance;
  options.rounding_noise = noise;
  ThreadPool pool(1);
  const Engine engine = compile_graph(quantized(random, engineered), find_backend("cpu"), {});
  // compile_graph() makes it.
  for (PlanStep& made : std::const_pointer_cast<Engine::Impl>(engine.impl())->plan.steps)
    made.moves_steps = engineered.moves_steps;
  return verify_engine(quantized(random, {}), engine, options, pool);
}

TEST(QuantizedSteps, EnginesInF16AreRightNearEdgesAlone) {
  const Random random = test_random();
  const auto in_f16 = [&](float shift, int64_t shifted, float factor) {
    return verify(random, {true, shift, shifted, factor}, 0.02, 0x1p-11);
  };
  const VerifyResult right = in_f16(0, 0, 1);
  EXPECT_TRUE(right.passed) << right.layers.culprit;
  EXPECT_GT(right.outputs[1].differing, 0.005) << "values that f16 moved across an edge";
  EXPECT_GE(right.layers.judged, 1);
  EXPECT_FALSE(in_f16(1, columns, 1).passed) << "all a step off";
  EXPECT_FALSE(in_f16(1, 1, 1).passed) << "a column a step off, one in 64 values";
  EXPECT_FALSE(in_f16(0, 0, 1.02F).passed) << "a scale that is wrong";
}

TEST(QuantizedSteps, EnginesInF32) {
  const Random random = test_random();
  const auto in_f32 = [&](float shift, int64_t shifted, float factor) {
    return verify(random, {false, shift, shifted, factor}, 1e-4, 0x1p-22);
  };
  EXPECT_TRUE(in_f32(0, 0, 1).passed);
  EXPECT_TRUE(in_f32(0, 0, 1 + 0x1p-22F).passed) << "sums in another order";
  EXPECT_FALSE(in_f32(1, columns, 1).passed);
  EXPECT_FALSE(in_f32(1, 1, 1).passed);
  EXPECT_FALSE(in_f32(0, 0, 1.001F).passed);
}

TEST(QuantizedSteps, TacticsThatMoveThemSaySo) {
  const Random random = test_random();
  const auto moved_by = [&](double part, bool moves_steps) {
    const Engineered engineered{.before = static_cast<float>(part), .moves_steps = moves_steps};
    return verify(random, engineered, 1e-4, 0x1p-22).passed;
  };
  EXPECT_TRUE(moved_by(0.9 * moved_by_steps, true));
  EXPECT_TRUE(moved_by(-0.9 * moved_by_steps, true));
  EXPECT_FALSE(moved_by(0.9 * moved_by_steps, false));
  EXPECT_FALSE(moved_by(3 * moved_by_steps, true));
  const Engineered wrong{.shift = 1, .shifted = 1, .moves_steps = true};
  EXPECT_FALSE(verify(random, wrong, 1e-4, 0x1p-22).passed) << "a column a step off";
}

}  // namespace
}  // namespace camshaft::quantized_steps_test
