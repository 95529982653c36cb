// --int8 through whole builds: what a calibration, a lock file and the clock decide.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/temporary_folder.h"
#include "builder/builder.h"
#include "builder/verification.h"
#include "onnx/model_writer.h"
#include "quantize/calibration_file.h"
#include "test_random.h"

namespace camshaft::int8_build_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

class Int8Build : public ::testing::Test {
 protected:
  Random random = test_random();
  TemporaryFolder folder;
  std::string model = folder.file("m.onnx"), ranges = folder.file("m.ranges");
  BuildReport report;

  // A residual block and a classifier.
  Int8Build() {
    const auto weights = [&](int64_t count, float scale) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& v : values) v = static_cast<float>(random.normal()) * scale;
      return values;
    };
    GraphWriter graph("main");
    graph.input("x", DType::f32, {2, 8, 12, 12}).output("y", DType::f32, {2, 10});
    graph.initializer(TensorWriter("w1", {32, 8, 3, 3}, weights(32 * 8 * 9, 0.17F)))
        .initializer(TensorWriter("b1", {32}, weights(32, 0.1F)))
        .initializer(TensorWriter("w2", {32, 32, 3, 3}, weights(32 * 32 * 9, 0.08F)))
        .initializer(TensorWriter("w3", {32, 10}, weights(320, 0.2F)))
        .node("Conv", {"x", "w1", "b1"}, {"a"}, {attr("pads", {1, 1, 1, 1})}, "", "first")
        .node("Relu", {"a"}, {"b"}, {}, "", "relu")
        .node("Conv", {"b", "w2"}, {"c"}, {attr("pads", {1, 1, 1, 1})}, "", "second")
        .node("Add", {"c", "b"}, {"d"}, {}, "", "add")
        .node("GlobalAveragePool", {"d"}, {"p"}, {}, "", "pool")
        .node("Flatten", {"p"}, {"f"}, {}, "", "flatten")
        .node("MatMul", {"f", "w3"}, {"y"}, {}, "", "classifier");
    std::ofstream(model, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
    calibrate({{"x", {-4.5, 4.5}}, {"b", {0, 6}}, {"f", {-4, 4}}});
  }

  void calibrate(std::map<std::string, TensorRange> tensors) {
    write_calibration({"minmax", std::move(tensors)}, ranges, CalibrationFormat::json);
  }

  BuildOptions options(Tuning tuning) const {
    BuildOptions options;
    options.tuning = tuning;
    options.int8 = true;
    options.calibration = ranges;
    options.threads = 1;
    return options;
  }

  Engine build(const BuildOptions& options) {
    Builder builder(options);
    Engine engine = builder.build(model);
    report = builder.report();
    return engine;
  }

  std::string refusal(const BuildOptions& options) {
    try {
      build(options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.what();
    }
    return "";
  }

  std::vector<Tensor> run(const Engine& engine, const Tensor& x) { return run_once(engine, {x}, 1); }

  std::vector<std::string> quantized() const {
    std::vector<std::string> names;
    for (const LayerPlacement& layer : report.quantized_layers)
      if (layer.quantized) names.push_back(layer.layer);
    return names;
  }
};

TEST_F(Int8Build, ComputesWhatItWasBuiltToWithinAFewSteps) {
  const Engine engine = build(options(Tuning::heuristic));
  EXPECT_EQ(quantized(), (std::vector<std::string>{"first", "second", "classifier"}));
  EXPECT_EQ(engine.metadata().at("precision"), "fp32, int8");
  for (const LayerInfo& layer : engine.layers())
    if (layer.op == "conv" || layer.op == "matmul") ADD_FAILURE() << layer.name << " is computed in " << layer.tactic;

  BuildOptions plain;
  plain.threads = 1;
  plain.tuning = Tuning::heuristic;
  Tensor x(DType::f32, {2, 8, 12, 12});
  for (int64_t i = 0; i < x.size(); ++i) x.as_mutable<float>()[i] = static_cast<float>(random.normal());
  const Tensor exact = run(build(plain), x)[0], got = run(engine, x)[0];
  float scale = 0, most = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    scale = std::max(scale, std::abs(exact.as<float>()[i]));
    most = std::max(most, std::abs(exact.as<float>()[i] - got.as<float>()[i]));
  }
  EXPECT_LT(most, 0.05F * scale);
  EXPECT_GT(most, 0) << "nothing was quantised";
}

TEST_F(Int8Build, MeasuresAndSaysWhatBecameOfEachLayer) {
  const Engine engine = build(options(Tuning::measure));
  ASSERT_EQ(report.quantized_layers.size(), 3);
  for (const LayerPlacement& layer : report.quantized_layers) EXPECT_EQ(layer.reason.empty(), layer.quantized);
}

TEST_F(Int8Build, ALockFileGivesTheSameEngine) {
  BuildOptions first = options(Tuning::measure), second = options(Tuning::locked);
  first.write_lock = second.lock = folder.file("m.lock");
  std::ostringstream a, b;
  const std::string path_a = folder.file("a.engine"), path_b = folder.file("b.engine");
  build(first).save(path_a);
  const std::vector<std::string> names = quantized();
  build(second).save(path_b);
  EXPECT_EQ(quantized(), names);
  a << std::ifstream(path_a, std::ios::binary).rdbuf();
  b << std::ifstream(path_b, std::ios::binary).rdbuf();
  EXPECT_EQ(a.str(), b.str());
}

TEST_F(Int8Build, LayersWithoutARangeStayAndSayWhy) {
  calibrate({{"x", {-4.5, 4.5}}, {"f", {-4, 4}}});
  build(options(Tuning::heuristic));
  EXPECT_EQ(quantized(), (std::vector<std::string>{"first", "classifier"}));
  EXPECT_EQ(report.quantized_layers[1].reason, "the calibration has no range for 'b'");
}

TEST_F(Int8Build, AnotherModelsCalibrationIsRefused) {
  calibrate({{"input", {0, 1}}, {"hidden", {0, 1}}});
  const std::string message = refusal(options(Tuning::heuristic));
  EXPECT_NE(message.find(ranges), std::string::npos) << message;
}

TEST_F(Int8Build, NeedsACalibration) {
  BuildOptions without = options(Tuning::heuristic);
  without.calibration.clear();
  const std::string message = refusal(without);
  EXPECT_NE(message.find("--calibration"), std::string::npos) << message;
}

TEST_F(Int8Build, LayersAreComputedInWhatIsAskedOfThem) {
  BuildOptions rules = options(Tuning::heuristic);
  rules.layer_precisions = {{"*", LayerPrecision::int8}, {"sec*", LayerPrecision::fp32}};
  const Engine engine = build(rules);
  EXPECT_EQ(quantized(), (std::vector<std::string>{"first", "classifier"}));
  EXPECT_EQ(report.quantized_layers[1].reason, "fp32 was asked of it");
  rules.constraints = PrecisionConstraints::none;
  build(rules);
  EXPECT_EQ(quantized().size(), 3);
}

// int8 is what was asked of it, whether or not it pays.
TEST_F(Int8Build, TheClockDoesNotTakeWhatWasAskedFor) {
  BuildOptions rules = options(Tuning::measure);
  rules.layer_precisions = {{"*", LayerPrecision::int8}};
  rules.constraints = PrecisionConstraints::obey;
  build(rules);
  EXPECT_EQ(quantized().size(), 3);
}

TEST_F(Int8Build, WhatCannotBeHadIsAnErrorWhereItIsToBeObeyed) {
  calibrate({{"x", {-4.5, 4.5}}, {"f", {-4, 4}}});
  BuildOptions rules = options(Tuning::heuristic);
  for (const auto& [rule, why] : std::vector<std::pair<PrecisionRule, std::string>>{
           {{"second", LayerPrecision::int8}, "no range for 'b'"},
           {{"thrid", LayerPrecision::fp32}, "no such node"},
           {{"relu", LayerPrecision::int8}, "no convolution or product"},
           {{"first", LayerPrecision::fp16}, "does not allow it (--fp16)"}}) {
    rules.layer_precisions = {rule};
    rules.constraints = PrecisionConstraints::prefer;
    build(rules);
    rules.constraints = PrecisionConstraints::obey;
    const std::string message = refusal(rules);
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_NE(message.find("'" + rule.pattern + "'"), std::string::npos) << message;
  }
}

// A pattern says nothing of a layer that another rule is for.
TEST_F(Int8Build, RulesThatOthersOverruleAreMet) {
  BuildOptions rules = options(Tuning::heuristic);
  rules.constraints = PrecisionConstraints::obey;
  for (const std::vector<PrecisionRule>& asked :
       std::vector<std::vector<PrecisionRule>>{{{"second", LayerPrecision::fp32}, {"*", LayerPrecision::int8}},
                                               {{"*", LayerPrecision::int8}, {"sec*", LayerPrecision::fp32}}}) {
    rules.layer_precisions = asked;
    build(rules);
    EXPECT_EQ(quantized(), (std::vector<std::string>{"first", "classifier"}));
  }
}

TEST_F(Int8Build, TypesOfResultsAreHeldToo) {
  BuildOptions rules = options(Tuning::heuristic);
  for (const auto& [rule, why] : std::vector<std::pair<PrecisionRule, std::string>>{
           {{"thrid", LayerPrecision::fp32}, "no such node"},
           {{"second", LayerPrecision::fp16}, "does not allow it (--fp16)"},
           {{"relu", LayerPrecision::fp32}, "'b' is stored in 8 bits"}}) {
    rules.layer_output_types = {rule};
    rules.constraints = PrecisionConstraints::prefer;
    build(rules);
    rules.constraints = PrecisionConstraints::obey;
    const std::string message = refusal(rules);
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_NE(message.find("the results of '" + rule.pattern + "'"), std::string::npos) << message;
  }
  rules.layer_output_types = {{"add", LayerPrecision::fp32}, {"classifier", LayerPrecision::fp32}};
  build(rules);
  EXPECT_EQ(quantized().size(), 3);
}

TEST_F(Int8Build, WhatTheBuildDoesNotAllowIsSaid) {
  BuildOptions rules = options(Tuning::heuristic);
  rules.int8 = false;
  rules.constraints = PrecisionConstraints::obey;
  rules.layer_precisions = {{"first", LayerPrecision::int8}};
  EXPECT_NE(refusal(rules).find("does not allow it (--int8)"), std::string::npos);
}

TEST_F(Int8Build, BestTakesInt8WithACalibrationAndNothingContradictsIt) {
  BuildOptions best = options(Tuning::heuristic);
  best.int8 = false;
  best.best = true;
  build(best);
  EXPECT_EQ(quantized().size(), 3);
  best.calibration.clear();
  build(best);
  EXPECT_TRUE(report.quantized_layers.empty());
  best.strongly_typed = true;
  EXPECT_NE(refusal(best).find("best"), std::string::npos);
  BuildOptions output = options(Tuning::heuristic);
  output.layer_output_types = {{"first", LayerPrecision::int8}};
  EXPECT_NE(refusal(output).find("'first'"), std::string::npos);
}

// Whatever the sample inputs are: the reference computes with the same steps.
TEST_F(Int8Build, RangesThatClipAreNoError) {
  calibrate({{"x", {-0.25, 0.5}}, {"b", {0, 0.125}}, {"f", {-0.01F, 0.01F}}});
  build(options(Tuning::heuristic));
  EXPECT_EQ(quantized().size(), 3);
}

}  // namespace
}  // namespace camshaft::int8_build_test
