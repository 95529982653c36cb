// What a build accepts of an output where rounding decides its elements, or leaves nothing of them.
#include "builder/verify_engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"
#include "base/work_scope.h"
#include "builder/builder.h"
#include "onnx/importer.h"
#include "onnx/model_writer.h"

namespace camshaft::verify_engine_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

constexpr int64_t count = 64;

// The order of scores, which are constants behind an input that does not matter.
class Ranking {
 public:
  explicit Ranking(const std::vector<float>& scores) {
    const GraphWriter graph = GraphWriter()
                                  .input("x", DType::f32, {count})
                                  .output("order", DType::i64, {count})
                                  .initializer(TensorWriter("zero", {}, std::vector<float>{0}))
                                  .initializer(TensorWriter("scores", {count}, scores))
                                  .initializer(TensorWriter("k", {1}, std::vector<int64_t>{count}))
                                  .node("Mul", {"x", "zero"}, {"nothing"})
                                  .node("Add", {"nothing", "scores"}, {"sum"})
                                  .node("TopK", {"sum", "k"}, {"sorted", "order"});
    std::ofstream(path_, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
  }
  ~Ranking() { std::filesystem::remove(path_); }

  Graph graph() const { return onnx::import_model(path_.string(), {}).graph; }
  Engine engine() const {
    BuildOptions options;
    options.verify = false;
    return Builder(options).build(path_.string());
  }

 private:
  const std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("ranking_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".onnx");
};

VerifyResult verify(const std::vector<float>& model, const std::vector<float>& engine) {
  const Graph graph = Ranking(model).graph();
  ThreadPool pool(1);
  return verify_engine(graph, Ranking(engine).engine(), {}, pool);
}

// 1.25, 1.25 + step, 1.25 + 2·step, …: no whole numbers, of which there may be no doubt.
std::vector<float> rising(float step) {
  std::vector<float> scores;
  for (int64_t i = 0; i < count; ++i) scores.push_back(1.25F + step * static_cast<float>(i));
  return scores;
}

TEST(VerifyEngine, EqualOrders) {
  const VerifyResult result = verify(rising(1), rising(1));
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.outputs[0].differing, 0);
  EXPECT_EQ(result.outputs[0].undecided, 0);
}

TEST(VerifyEngine, OrdersThatRoundingDecidesMayDiffer) {
  // Up to seven units in the last place.
  std::vector<float> rounded = rising(0);
  for (size_t i = 0; i < rounded.size(); ++i) rounded[i] += 0x1p-23F * static_cast<float>(i % 8);
  const VerifyResult result = verify(rising(0), rounded);
  EXPECT_TRUE(result.passed);
  EXPECT_GT(result.outputs[0].differing, 0.9);
  EXPECT_GT(result.outputs[0].undecided, 0.25);
  EXPECT_FALSE(verify(rising(0), rising(0x1p-23F)).passed) << "up to 63 are more than rounding";
}

TEST(VerifyEngine, OrdersThatRoundingDoesNotDecideMustBeEqual) {
  const VerifyResult result = verify(rising(1), rising(-0.01F));
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.outputs[0].differing, 1);
  EXPECT_EQ(result.outputs[0].undecided, 0);
  EXPECT_NE(result.layers.culprit.find("layer 'sum'"), std::string::npos) << result.layers.culprit;
}

TEST(VerifyEngine, AFewUndecidedElementsExcuseAFewOthers) {
  std::vector<float> scores = rising(1);
  scores[0] = scores[1] = scores[2];
  const VerifyResult result = verify(scores, rising(-0.01F));
  EXPECT_FALSE(result.passed);
  EXPECT_LE(result.outputs[0].undecided, 3.0 / count);
}

TEST(VerifyEngine, ScoresOfNothingMayDiffer) {
  // A classifier that is very sure: e^-95 is below the smallest number of f32 that has all its bits.
  const TemporaryFolder folder;
  const std::string path = folder.file("sure.onnx");
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {count})
                                .output("y", DType::f32, {count})
                                .initializer(TensorWriter("bias", {}, std::vector<float>{-95}))
                                .node("Add", {"x", "bias"}, {"logits"})
                                .node("Sigmoid", {"logits"}, {"y"});
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
  EXPECT_NO_THROW(Builder().build(path));
}

std::vector<float> amplifying_weights() {
  std::vector<float> weights(count * count);
  for (int64_t i = 0; i < count; ++i) {
    weights[static_cast<size_t>(i * count + i)] = 0.6F;
    weights[static_cast<size_t>(i * count + (i + 7) % count)] = 0.8F;
  }
  return weights;
}

// Adds h = sin(factor · (h · W)), `layers` times, each of which makes a difference eight times as large. `wrong_layer`
// has another factor.
GraphWriter with_amplifier(GraphWriter graph, int wrong_layer, float wrong_factor, int layers) {
  for (int i = 1; i <= layers; ++i) {
    const std::string n = std::to_string(i), before = i == 1 ? "x" : "h" + std::to_string(i - 1);
    graph = std::move(graph)
                .initializer(TensorWriter("factor" + n, {}, std::vector<float>{i == wrong_layer ? wrong_factor : 8}))
                .node("MatMul", {before, "w"}, {"product" + n})
                .node("Mul", {"product" + n, "factor" + n}, {"angle" + n})
                .node("Sin", {"angle" + n}, {"h" + n});
  }
  return graph;
}

// Of twelve layers: what rounding leaves of the output is no better than chance.
GraphWriter amplifier(int wrong_layer, float wrong_factor, int layers = 12) {
  GraphWriter graph = GraphWriter()
                          .input("x", DType::f32, {4, count})
                          .output("h" + std::to_string(layers), DType::f32, {4, count})
                          .initializer(TensorWriter("w", {count, count}, amplifying_weights()));
  return with_amplifier(std::move(graph), wrong_layer, wrong_factor, layers);
}

void write(const GraphWriter& graph, const std::string& path) {
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(21).graph(graph).bytes();
}

VerifyResult verify_built(const GraphWriter& model, const GraphWriter& built) {
  const TemporaryFolder folder;
  const std::string right = folder.file("right.onnx"), wrong = folder.file("wrong.onnx");
  write(model, right);
  write(built, wrong);
  BuildOptions options;
  options.verify = false;
  ThreadPool pool(1);
  return verify_engine(onnx::import_model(right, {}).graph, Builder(options).build(wrong), {}, pool);
}

VerifyResult verify_amplifier(int wrong_layer, float wrong_factor) {
  return verify_built(amplifier(0, 0), amplifier(wrong_layer, wrong_factor));
}

TEST(VerifyEngine, AModelThatAmplifiesRoundingIsJudgedByItsLayers) {
  const VerifyResult result = verify_amplifier(0, 0);
  EXPECT_TRUE(result.passed) << result.layers.culprit;
  EXPECT_TRUE(result.by_layers);
  EXPECT_GT(result.sensitivity, 0.1);
  EXPECT_FALSE(result.outputs[0].telling);
  EXPECT_GE(result.layers.judged, 12);
  EXPECT_EQ(result.layers.undecided, 0);
  EXPECT_LT(result.layers.worst, 0.5);

  const TemporaryFolder folder;
  write(amplifier(0, 0), folder.file("m.onnx"));
  Builder builder;
  builder.build(folder.file("m.onnx"));
  EXPECT_GE(builder.report().judged_tensors, 12);
  EXPECT_GT(builder.report().sensitivity, 0.1);
}

// A model whose output is computed by a branch of an If.
GraphWriter in_a_branch(const GraphWriter& branch, int64_t rows) {
  return GraphWriter()
      .input("x", DType::f32, {rows, count})
      .output("y", DType::f32, {rows, count})
      .initializer(TensorWriter("w", {count, count}, amplifying_weights()))
      .initializer(TensorWriter("zero", {}, std::vector<float>{0}))
      .node("ReduceSum", {"x"}, {"sum"}, {attr("keepdims", 0)})
      .node("Abs", {"sum"}, {"size"})
      .node("GreaterOrEqual", {"size", "zero"}, {"always"})
      .node("If", {"always"}, {"y"},
            {attr("then_branch", branch),
             attr("else_branch", GraphWriter("e").output("n", DType::f32).node("Neg", {"x"}, {"n"}))});
}

TEST(VerifyEngine, BranchesAmplifyRoundingAsWell) {
  const auto model = [](float factor) {
    return in_a_branch(with_amplifier(GraphWriter("t").output("h5", DType::f32), 3, factor, 5), 4);
  };
  const VerifyResult right = verify_built(model(8), model(8));
  EXPECT_TRUE(right.passed) << right.layers.culprit;
  EXPECT_GT(right.sensitivity, 1e-4);
  EXPECT_FALSE(verify_built(model(8), model(8.1F)).passed);
}

// Of steps that are 10^-4 of the numbers, rounding puts one in some hundred on the other side of an edge.
TEST(VerifyEngine, StepsWithinBranchesMayBeAcrossAnEdge) {
  const auto model = [](float factor) {
    const GraphWriter branch = GraphWriter("t")
                                   .output("r", DType::f32)
                                   .initializer(TensorWriter("factor", {}, std::vector<float>{factor}))
                                   .initializer(TensorWriter("step", {}, std::vector<float>{1e-4F}))
                                   .initializer(TensorWriter("zero_step", {}, std::vector<int16_t>{0}))
                                   .node("MatMul", {"x", "w"}, {"p"})
                                   .node("Tanh", {"p"}, {"t"})
                                   .node("Mul", {"t", "factor"}, {"m"})
                                   .node("QuantizeLinear", {"m", "step", "zero_step"}, {"q"})
                                   .node("DequantizeLinear", {"q", "step", "zero_step"}, {"r"});
    return in_a_branch(branch, 500);
  };
  const VerifyResult right = verify_built(model(3), model(3));
  EXPECT_TRUE(right.passed) << right.layers.culprit;
  EXPECT_GT(right.outputs[0].max_error, 5e-5) << "values that rounding moved across an edge";
  EXPECT_FALSE(verify_built(model(3), model(3.001F)).passed) << "all some steps off";
}

// Of images that are resized, sizes are rounded down from products of floats, and arrays must have them.
TEST(VerifyEngine, SizesThatRoundingDecidesAreNoError) {
  const TemporaryFolder folder;
  // As many as leave no doubt that noise brings one of them below.
  const std::vector<float> sixteen(16, 16);
  const GraphWriter graph = amplifier(0, 0)
                                .output("y", DType::f32)
                                .initializer(TensorWriter("sixteen", {16}, sixteen))
                                .initializer(TensorWriter("first", {}, std::vector<int64_t>{0}))
                                .node("NonZero", {"x"}, {"found"})  // all of 256
                                .node("Shape", {"found"}, {"size"}, {attr("start", 1)})
                                .node("Cast", {"size"}, {"float"}, {attr("to", 1)})
                                .node("Sqrt", {"float"}, {"root"})
                                .node("Mul", {"root", "sixteen"}, {"product"})
                                .node("Floor", {"product"}, {"down"})
                                .node("ReduceMin", {"down"}, {"least"}, {attr("axes", {0})})
                                .node("Cast", {"least"}, {"flat"}, {attr("to", 7)})
                                .node("ConstantOfShape", {"flat"}, {"zeros"})
                                .node("Gather", {"found", "first"}, {"rows"})
                                .node("Cast", {"rows"}, {"floats"}, {attr("to", 1)})
                                .node("Add", {"floats", "zeros"}, {"y"});
  write(graph, folder.file("m.onnx"));
  Builder builder;
  EXPECT_NO_THROW(builder.build(folder.file("m.onnx")));
  EXPECT_GE(builder.report().judged_tensors, 12);
}

// The reference computes f16 in f32 where the engine does, but what the engine stores is rounded.
TEST(VerifyEngine, HalvesAreHeldToTheirOwnRounding) {
  const TemporaryFolder folder;
  std::vector<uint16_t> exponents;
  for (uint16_t i = 0; i < count; ++i) exponents.push_back(static_cast<uint16_t>(0x3c00 + 7 * i));  // 1 to 1.43
  const std::string bytes(reinterpret_cast<const char*>(exponents.data()), 2 * exponents.size());
  const GraphWriter graph = amplifier(0, 0)
                                .output("e", DType::f16, {count})
                                .initializer(TensorWriter("c", {count}, DType::f16, bytes))
                                .node("Exp", {"c"}, {"e"});
  write(graph, folder.file("m.onnx"));
  Builder builder;
  EXPECT_NO_THROW(builder.build(folder.file("m.onnx")));
  EXPECT_GE(builder.report().judged_tensors, 13);
}

TEST(VerifyEngine, NonsenseDoesNotPassWhereRoundingIsAmplified) {
  const VerifyResult zeros = verify_amplifier(12, 0);
  EXPECT_FALSE(zeros.passed);
  EXPECT_NE(zeros.layers.culprit.find("layer 'h12'"), std::string::npos) << zeros.layers.culprit;
  const VerifyResult middle = verify_amplifier(6, 8.01F);
  EXPECT_FALSE(middle.passed);
  EXPECT_NE(middle.layers.culprit.find("layer 'h6'"), std::string::npos) << middle.layers.culprit;
}

// What two layers leave of rounding is less than the tolerance, and as much as a last step may be off by.
GraphWriter amplifier_and_shift(float shift) {
  return amplifier(0, 0, 2)
      .output("y", DType::f32, {4, count})
      .initializer(TensorWriter("shift", {}, std::vector<float>{shift}))
      .node("Add", {"h2", "shift"}, {"y"});
}

TEST(VerifyEngine, WhatOnlyAmplifiedRoundingExplainsIsNoLayersFault) {
  const VerifyResult right = verify_built(amplifier_and_shift(0.5F), amplifier_and_shift(0.5F));
  EXPECT_TRUE(right.passed) << right.layers.culprit;
  const VerifyResult wrong = verify_built(amplifier_and_shift(0.5F), amplifier_and_shift(0.50002F));
  EXPECT_FALSE(wrong.passed);
  EXPECT_FALSE(wrong.by_layers);
  EXPECT_LT(wrong.outputs[1].relative(), 1e-4);
  EXPECT_NE(wrong.outputs[1].doubt.find("a layer is wrong"), std::string::npos) << wrong.outputs[1].doubt;
  EXPECT_NE(wrong.layers.culprit.find("layer 'y'"), std::string::npos) << wrong.layers.culprit;
}

// A GRU whose gates are sums of 1000 products: some 20, of which rounding leaves an error of 1e-5. `step` is added to
// one of its 9000 weights.
GraphWriter wide_gru(float step) {
  constexpr int64_t in = 1000, hidden = 3;
  std::vector<float> weights, recurrence(static_cast<size_t>(3 * hidden * hidden), 0.5F);
  for (int64_t i = 0; i < 3 * hidden * in; ++i) weights.push_back(static_cast<float>(i * 7919 % 1009) / 504.5F - 1);
  weights[0] += step;
  return GraphWriter()
      .input("x", DType::f32, {2, 33, in})
      .output("y", DType::f32, {2, 1, 33, hidden})
      .initializer(TensorWriter("w", {1, 3 * hidden, in}, weights))
      .initializer(TensorWriter("r", {1, 3 * hidden, hidden}, recurrence))
      .node("GRU", {"x", "w", "r"}, {"y"}, {attr("hidden_size", hidden)});
}

TEST(VerifyEngine, SumsWithinRecurrentLayersMayRound) {
  const VerifyResult right = verify_built(wide_gru(0), wide_gru(0));
  EXPECT_TRUE(right.passed) << right.outputs[0].doubt;
  EXPECT_GT(right.outputs[0].relative(), 4e-6) << "what needs no explanation";
  EXPECT_FALSE(verify_built(wide_gru(0), wide_gru(0.002F)).passed);
}

// An engine that is right on some sizes and wrong on numbers that others have.
TEST(VerifyEngine, FurtherInputsAreJudgedWhileThereIsTime) {
  const TemporaryFolder folder;
  const auto model = [&](const std::string& name, float most) {
    const std::string path = folder.file(name);
    const GraphWriter graph = GraphWriter()
                                  .input("x", DType::f32, {any_dim})
                                  .output("y", DType::f32, {any_dim})
                                  .initializer(TensorWriter("least", {}, std::vector<float>{0}))
                                  .initializer(TensorWriter("most", {}, std::vector<float>{most}))
                                  .node("Clip", {"x", "least", "most"}, {"y"});
    std::ofstream(path, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
    return path;
  };
  const Graph graph = onnx::import_model(model("right.onnx", 100)).graph;
  BuildOptions unverified;
  unverified.verify = false;
  const Engine engine = Builder(unverified).build(model("wrong.onnx", 6));
  ThreadPool pool(1);
  VerifyOptions options;
  options.inputs["x"] = Tensor::of<float>(DType::f32, {3}, {1, 5, -2});
  EXPECT_TRUE(verify_engine(graph, engine, options, pool).passed);
  options.further_inputs.push_back({{"x", Tensor::of<float>(DType::f32, {2}, {4, 2})}});
  VerifyResult result = verify_engine(graph, engine, options, pool);
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.samples.size(), 2U);
  options.further_inputs.push_back({{"x", Tensor::of<float>(DType::f32, {4}, {4, 2, 10, 1})}});
  EXPECT_FALSE(verify_engine(graph, engine, options, pool).passed);
  options.seconds = 0;
  result = verify_engine(graph, engine, options, pool);
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.left_out.size(), 2U) << "there was no time for them, and that is said";
  options.seconds = 10;
  options.further_inputs[1]["z"] = options.inputs["x"];
  EXPECT_THROW(verify_engine(graph, engine, options, pool), Error) << "there is no such input";
}

// The last sizes are 37 pictures or 11, which the budget has no room for: what is left of it is not spent on what a
// build can do without.
TEST(VerifyEngine, FurtherSizesKeepWithinTheBudget) {
  const TemporaryFolder folder;
  const std::string path = folder.file("pictures.onnx");
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {"a", "b", "c"})
                                .output("y", DType::f32, {"a", "b", "c"})
                                .node("Neg", {"x"}, {"y"});
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
  BuildOptions unverified;
  unverified.verify = false;
  const Engine engine = Builder(unverified).build(path);
  ThreadPool pool(1);
  VerifyOptions options;
  options.seconds = 1000;
  const auto samples = [&](double operations) {
    const auto budget = std::make_shared<Budget>(operations, size_t{1} << 30, "", "");
    const Cancellation cancellation;
    const WorkScope counted(cancellation, budget);
    const VerifyResult result = verify_engine(onnx::import_model(path).graph, engine, options, pool);
    EXPECT_TRUE(result.passed);
    EXPECT_LT(budget->operations_taken(), operations);
    return result.samples.size();
  };
  EXPECT_EQ(samples(1e12), 5U);
  EXPECT_EQ(samples(8e7), 4U) << "11 of 64 x 64 numbers are 9e6 operations, and may be run ten times";
}

}  // namespace
}  // namespace camshaft::verify_engine_test
