#include "builder/quantize_model.h"

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::quantize_model_test {
namespace {

constexpr std::string_view two_products = R"(graph "g" (%x: f32[4, 2]) {
    const %v: f32[2, 2] = [256, 1, 3, 4]
    %a = matmul (%x, %v)
    %y = matmul (%a, %v)
    return "y" = %y
  })";

/// Whether each layer was quantised, or why not.
std::vector<std::string> placed(const Calibration& calibration, const PrecisionRules* rules = nullptr) {
  ThreadPool pool(1);
  Graph graph = parse_graph(two_products, operators());
  for (Node& node : graph.nodes) node.sources = {graph.value(node.outputs[0]).name};
  PassContext context{.pool = pool};
  context.rules = rules;
  std::vector<std::string> layers;
  for (const LayerPlacement& layer : quantize_model(graph, calibration, "a file", {}, context))
    layers.push_back(layer.quantized ? "quantised" : layer.reason);
  return layers;
}

TEST(QuantizeModel, WhatTheStepsWouldDrownInNoiseStaysInFloatingPoint) {
  Calibration calibration{"", {{"x", {-1, 1}}, {"a", {-256, 256}}}};
  EXPECT_EQ(placed(calibration), (std::vector<std::string>{"quantised", "quantised"}));
  calibration.noise = {{"x", 0.0099F}, {"a", 0.25F}};
  EXPECT_EQ(placed(calibration),
            (std::vector<std::string>{"quantised", "8 bits would leave 'a' with 25 % of noise, 1 % is allowed"}));
}

TEST(QuantizeModel, WhoAsksForIntegersGetsThem) {
  const Calibration calibration{"", {{"x", {-1, 1}}, {"a", {-256, 256}}}, {}, {{"x", 0.5F}, {"a", 0.5F}}};
  const PrecisionRules rules = PrecisionRules({parse_precision_rule("y:int8")});
  const std::vector<std::string> layers = placed(calibration, &rules);
  EXPECT_NE(layers[0], "quantised");
  EXPECT_EQ(layers[1], "quantised");
}

}  // namespace
}  // namespace camshaft::quantize_model_test
