#include "quantize/place_quantization.h"

#include <gtest/gtest.h>

#include <limits>

#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace camshaft::place_quantization_test {
namespace {

Graph graph_of(const std::string& inputs, const std::string& body) {
  return parse_graph("graph \"g\" (" + inputs + ") {\n" + body + "\n}", operators());
}

void expect_placed(const std::string& inputs, const std::string& before, const std::string& after,
                   const Calibration& calibration) {
  Graph graph = graph_of(inputs, before);
  place_quantization(graph, calibration);
  verify(graph, "place_quantization");
  const Graph expected = graph_of(inputs, after);
  EXPECT_TRUE(equal(graph, expected)) << "got\n" << print(graph) << "expected\n" << print(expected);
}

TEST(PlaceQuantization, AProductReadsStepsAndHasOneScaleAColumn) {
  expect_placed("%x: f32[5, 2]", R"(const %w: f32[2, 3] = [1, 2, 3, 4, 5, 6]
    %y = matmul (%x, %w)
    return "y" = %y)",
                R"(const %w: f32[2, 3] = [1, 2, 3, 4, 5, 6]
    const %sx: f32[] = 0.25
    const %zx: u8[] = 55
    const %most: f32[] = 127
    const %least: f32[] = 7.888609052210118e-31
    %q = quantize {dtype=u8} (%x, %sx, %zx)
    %d = dequantize (%q, %sx, %zx)
    %a = pointwise {function=abs} (%w)
    %m = reduce {kind=max, axes=[0], keep_dims=false} (%a)
    %f = pointwise {function=div} (%m, %most)
    %s = pointwise {function=max} (%f, %least)
    %wq = quantize {dtype=i8, axis=1} (%w, %s)
    %wd = dequantize {axis=1} (%wq, %s)
    %y = matmul (%d, %wd)
    return "y" = %y)",
                {"", {{"x", {-13.75, 50}}}});
}

// Floats have no zero point, and a bias stays as it is.
TEST(PlaceQuantization, InFloatsTheLargestMagnitudeIsTheLargestNumber) {
  Graph graph = graph_of("%x: f32[1, 2, 4, 4]", R"(const %w: f32[3, 2, 1, 1] = [1, 2, 3, 4, 5, 6]
    const %b: f32[3] = [1, 2, 3]
    %y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w, %b)
    return "y" = %y)");
  const auto placed = place_quantization(graph, {"", {{"x", {-896, 50}}}}, {}, LayerPrecision::fp8);
  verify(graph, "place_quantization");
  const Graph expected = graph_of("%x: f32[1, 2, 4, 4]", R"(const %w: f32[3, 2, 1, 1] = [1, 2, 3, 4, 5, 6]
    const %b: f32[3] = [1, 2, 3]
    const %sx: f32[] = 2
    const %most: f32[] = 448
    const %least: f32[] = 7.888609052210118e-31
    %q = quantize {dtype=f8e4m3} (%x, %sx)
    %d = dequantize (%q, %sx)
    %a = pointwise {function=abs} (%w)
    %m = reduce {kind=max, axes=[1, 2, 3], keep_dims=false} (%a)
    %f = pointwise {function=div} (%m, %most)
    %s = pointwise {function=max} (%f, %least)
    %wq = quantize {dtype=f8e4m3} (%w, %s)
    %wd = dequantize (%wq, %s)
    %y = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%d, %wd, %b)
    return "y" = %y)");
  EXPECT_TRUE(equal(graph, expected)) << "got\n" << print(graph) << "expected\n" << print(expected);
  ASSERT_EQ(placed.size(), 1u);
  EXPECT_TRUE(placed[0].quantized);
  EXPECT_EQ(placed[0].precision, LayerPrecision::fp8);
}

TEST(PlaceQuantization, RangesReachToZero) {
  for (const TensorRange& range : {TensorRange{10, 51}, TensorRange{-51, -10}}) {
    Graph graph = graph_of("%x: f32[5, 2]", R"(const %w: f32[2, 3] = [1, 2, 3, 4, 5, 6]
      %y = matmul (%x, %w)
      return "y" = %y)");
    place_quantization(graph, {"", {{"x", range}}});
    const Node& quantize = graph.nodes.front();
    ASSERT_EQ(quantize.op.name(), "quantize");
    EXPECT_FLOAT_EQ(*graph.value(quantize.inputs[1]).constant->as<float>(), 0.2F);
    EXPECT_EQ(*graph.value(quantize.inputs[2]).constant->as<uint8_t>(), range.min < 0 ? 255 : 0);
  }
}

// What adds an image to another reads the steps that the convolution beside it reads; what adds rows does not.
TEST(PlaceQuantization, ImagesAreReadInStepsByAllRowsByProductsAlone) {
  Graph images = graph_of("%x: f32[1, 3, 4, 4]", R"(const %w: f32[3, 3, 1, 1] = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    %c = conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1]} (%x, %w)
    %y = pointwise {function=add} (%c, %x)
    return "y" = %y)");
  place_quantization(images, {"", {{"x", {-1, 1}}}});
  EXPECT_NE(images.nodes.back().inputs[1], images.inputs[0]);
  EXPECT_EQ(images.nodes.back().op.name(), "pointwise");

  Graph rows = graph_of("%x: f32[4, 2]", R"(const %w: f32[2, 2] = [1, 2, 3, 4]
    %c = matmul (%x, %w)
    %y = pointwise {function=add} (%c, %x)
    return "y" = %y)");
  place_quantization(rows, {"", {{"x", {-1, 1}}}});
  EXPECT_EQ(rows.nodes.back().inputs[1], rows.inputs[0]);
}

TEST(PlaceQuantization, WhatStaysInFloatingPointSaysWhy) {
  const std::string body = R"(const %w: f32[2, 3] = [1, 2, 3, 4, 5, 6]
    %y = matmul (%x, %w)
    return "y" = %y)";
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const TensorRange& range : {TensorRange{0, 0}, TensorRange{nan, 1}, TensorRange{0, nan}, TensorRange{0, inf},
                                   TensorRange{-inf, 0}, TensorRange{0, 1e-40F}}) {
    Graph graph = graph_of("%x: f32[5, 2]", body);
    const std::vector<LayerPlacement> layers = place_quantization(graph, {"", {{"x", range}}});
    ASSERT_EQ(layers.size(), 1);
    EXPECT_FALSE(layers[0].quantized) << range.min << " " << range.max;
    EXPECT_NE(layers[0].reason.find("'x'"), std::string::npos) << layers[0].reason;
    EXPECT_TRUE(equal(graph, graph_of("%x: f32[5, 2]", body)));
  }
  Graph graph = graph_of("%x: f32[5, 2]", body);
  EXPECT_EQ(place_quantization(graph, {"", {{"other", {0, 1}}}})[0].reason, "the calibration has no range for 'x'");
}

TEST(PlaceQuantization, AsksForTheRangesOfWhatLayersRead) {
  const Graph graph = graph_of("%x: f32[5, 2], %z: f32[2, 5]", R"(const %w: f32[2, 2] = [1, 2, 3, 4]
    %a = matmul (%x, %w)
    %b = matmul {transpose_b=true} (%a, %w)
    %c = matmul (%x, %w)
    %d = matmul (%x, %z)
    return "b" = %b, "c" = %c, "d" = %d)");
  EXPECT_EQ(tensors_to_calibrate(graph), (std::vector<std::string>{"a", "x"}));
}

}  // namespace
}  // namespace camshaft::place_quantization_test
