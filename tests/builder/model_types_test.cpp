#include "builder/model_types.h"

#include <gtest/gtest.h>

#include "ir/ops/operators.h"
#include "ir/text.h"
#include "runtime/backends.h"

namespace camshaft::model_types_test {
namespace {

Graph model(const std::string& input, const std::string& body) {
  Graph graph = parse_graph("graph \"g\" (" + input + ") {" + body + "}", operators());
  for (Node& node : graph.nodes) node.sources = {graph.value(node.outputs[0]).name};
  return graph;
}

// Halves, of which one product is computed in f32, and a sum in f32 that two others read.
Graph mixed(const std::string& half) {
  return model("%x: " + half + "[4, 8]", "const %w: " + half + "[8, 8] = 0.5\n" + R"(
    const %v: f32[8, 8] = 0.5
    %a = matmul (%x, %w)
    %b = matmul (%a, %w)
    %wide = cast {to=f32} (%b)
    %c = matmul (%wide, %v)
    %d = pointwise {function=add} (%c, %wide)
    %e = pointwise {function=tanh} (%d)
    %f = pointwise {function=mul} (%d, %e)
    %y = cast {to=)" + half + R"(} (%f)
    return "y" = %y)");
}

TEST(ModelTypes, AModelIsStoredInWhatMostOfItsProductsRead) {
  EXPECT_EQ(stored_type(mixed("f16")), DType::f16);
  EXPECT_EQ(stored_type(mixed("bf16")), DType::bf16);
  // Weights in halves, products in f32.
  EXPECT_EQ(stored_type(model("%x: f32[4, 8]", R"(
    const %w: f16[8, 8] = 0.5
    %v = cast {to=f32} (%w)
    %y = matmul (%x, %v)
    return "y" = %y)")),
            DType::f32);
  EXPECT_EQ(stored_type(model("%x: f16[4]", "%y = pointwise {function=tanh} (%x)\n return \"y\" = %y")), DType::f32);
}

TEST(ModelTypes, WhatTheModelComputesInF32StaysSo) {
  const WideParts parts = wide_parts(mixed("f16"));
  ASSERT_EQ(parts.products.size(), 1U);
  EXPECT_EQ(parts.products[0], (PrecisionRule{"c", LayerPrecision::fp32}));
  // Neither the conversion of a half nor what only becomes a half.
  EXPECT_EQ(parts.values, (std::set<std::string>{"c", "d", "e"}));
}

TEST(ModelTypes, OfAModelInF32NothingIsSaid) {
  const WideParts parts = wide_parts(model("%x: f32[4, 8]", R"(
    const %w: f32[8, 8] = 0.5
    %y = matmul (%x, %w)
    return "y" = %y)"));
  EXPECT_TRUE(parts.products.empty());
  EXPECT_TRUE(parts.values.empty());
}

TEST(ModelTypes, ABackendThatGainsNothingBuildsAsBefore) {
  const auto cpu = find_backend("cpu");
  const BuildOptions options = with_types_of({}, mixed("f16"), *cpu);
  EXPECT_EQ(options.fp16, cpu->gains_from(DType::f16));
  BuildOptions typed;
  typed.strongly_typed = true;
  EXPECT_FALSE(with_types_of(typed, mixed("f16"), *cpu).fp16);
}

}  // namespace
}  // namespace camshaft::model_types_test
