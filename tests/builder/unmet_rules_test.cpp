#include "builder/unmet_rules.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "quantize/calibration_file.h"
#include "runtime/backends.h"

namespace camshaft::unmet_rules_test {
namespace {

// A product, an activation and another product, as three nodes of the model.
Graph model() {
  Graph graph = parse_graph(R"(graph "g" (%x: f32[4, 32]) {
    const %v: f32[32, 32] = 0.125
    const %w: f32[32, 16] = 0.25
    %a = matmul (%x, %v)
    %b = pointwise {function=tanh} (%a)
    %y = matmul (%b, %w)
    return "y" = %y
  })",
                            operators());
  const char* names[] = {"first", "tanh", "second"};
  for (size_t i = 0; i < graph.nodes.size(); ++i) graph.nodes[i].sources = {names[i]};
  return graph;
}

class UnmetRules : public ::testing::Test {
 protected:
  /// What is said of these rules of a build in int8 by the ranges below, or without int8.
  std::vector<std::string> unmet(const std::vector<std::string>& layers, const std::vector<std::string>& results = {},
                                 bool int8 = true) {
    BuildOptions options;
    options.verify = false;
    options.int8 = int8;
    if (int8) {
      write_calibration({"minmax", calibrated_}, ranges_, CalibrationFormat::json);
      options.calibration = ranges_;
    }
    for (const std::string& rule : layers) options.layer_precisions.push_back(parse_precision_rule(rule));
    for (const std::string& rule : results) options.layer_output_types.push_back(parse_precision_rule(rule));
    ThreadPool pool(1);
    const std::shared_ptr<const Backend> backend = find_backend("cpu");
    ModelOptimizer optimizer(options, *backend, pool);
    Graph graph = model();
    optimizer.settle_meaning(graph);
    const auto low = int8 ? std::optional(LayerPrecision::int8) : std::nullopt;
    return unmet_rules(options, graph, optimizer.run(graph, low, {}));
  }

  std::map<std::string, TensorRange> calibrated_ = {{"x", {-1, 1}}};

 private:
  TemporaryFolder folder_;
  std::string ranges_ = folder_.file("ranges");
};

using Texts = std::vector<std::string>;

TEST_F(UnmetRules, NothingIsSaidOfThoseThatAreMet) {
  EXPECT_EQ(unmet({"first:int8", "second:fp32"}), Texts());
  EXPECT_EQ(unmet({"*:fp32"}), Texts());
  EXPECT_EQ(unmet({}, {"tanh:fp32"}), Texts());
}

TEST_F(UnmetRules, NodesThatTheModelDoesNotHave) {
  EXPECT_EQ(unmet({"third:fp32"}),
            Texts{"fp32 for the layer 'third': the model has no such node, as 'first', 'second', 'tanh' are"});
  EXPECT_EQ(unmet({}, {"third*:fp32"}),
            Texts{"fp32 for the results of 'third*': the model has no such node, as 'first', 'second', 'tanh' are"});
}

TEST_F(UnmetRules, PrecisionsThatTheBuildDoesNotAllow) {
  EXPECT_EQ(unmet({"first:int8"}, {}, false),
            Texts{"int8 for the layer 'first': the build does not allow it (--int8)"});
  EXPECT_EQ(unmet({"first:fp16"}), Texts{"fp16 for the layer 'first': the build does not allow it (--fp16)"});
  EXPECT_EQ(unmet({}, {"first:bf16"}), Texts{"bf16 for the results of 'first': the build does not allow it (--bf16)"});
}

TEST_F(UnmetRules, LayersThatStayInFloatingPoint) {
  EXPECT_EQ(unmet({"second:int8"}), Texts{"int8 for the layer 'second': 'second' stays in floating point: the "
                                          "calibration has no range for 'b'"});
  EXPECT_EQ(unmet({"tanh:int8"}), Texts{"int8 for the layer 'tanh': it is no convolution or product with constant "
                                        "weights that this build quantises"});
}

// A pattern asks int8 of all, a name fp32 of one: that one is no fault of the pattern's.
TEST_F(UnmetRules, WhatAnotherRuleDecidesCountsForThatOne) {
  EXPECT_EQ(unmet({"*:int8", "second:fp32"}), Texts());
  EXPECT_EQ(unmet({"*:int8"}).size(), 1);
}

TEST_F(UnmetRules, ResultsThatAreStoredIn8Bits) {
  calibrated_["b"] = {-1, 1};
  EXPECT_EQ(unmet({}, {"tanh:fp32"}),
            Texts{"fp32 for the results of 'tanh': 'b' is stored in 8 bits for what reads it so (layer-precisions "
                  "can ask fp32 of that)"});
  EXPECT_EQ(unmet({"second:fp32"}, {"tanh:fp32"}), Texts());
}

TEST_F(UnmetRules, AreErrorsOnlyWhereTheyAreToBeObeyed) {
  BuildOptions options;
  options.layer_precisions.push_back(parse_precision_rule("first:int8"));
  const Graph graph = model();
  options.constraints = PrecisionConstraints::none;
  EXPECT_NO_THROW(check_rules(options, graph, {}, "the engine is built"));
  options.constraints = PrecisionConstraints::prefer;
  EXPECT_NO_THROW(check_rules(options, graph, {}, "the engine is built"));
  options.constraints = PrecisionConstraints::obey;
  try {
    check_rules(options, graph, {}, "the engine is built");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(e.what(),
                 "a precision cannot be had: int8 for the layer 'first': the build does not allow it (--int8). With "
                 "--precision-constraints prefer the engine is built all the same");
  }
}

}  // namespace
}  // namespace camshaft::unmet_rules_test
