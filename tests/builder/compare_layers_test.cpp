#include "builder/compare_layers.h"

#include <gtest/gtest.h>

namespace camshaft::compare_layers_test {
namespace {

LayerTime layer(std::vector<std::string> sources, double seconds) {
  LayerTime time;
  time.sources = std::move(sources);
  time.seconds = seconds;
  return time;
}

LayerPlacement placed(const std::string& layer, bool quantized = true) {
  LayerPlacement placement;
  placement.layer = layer;
  placement.quantized = quantized;
  return placement;
}

KeptLayers slower_layers(const std::vector<LayerTime>& high, const std::vector<LayerTime>& low,
                         std::vector<LayerPlacement> layers) {
  compare_layers(high, low, layers);
  return camshaft::slower_layers(layers);
}

std::vector<std::string> names(const KeptLayers& layers) {
  std::vector<std::string> list;
  for (const auto& [name, reason] : layers) list.push_back(name);
  return list;
}

TEST(CompareLayers, EachLayerIsComparedWithItself) {
  const std::vector<LayerTime> high{layer({"a"}, 3), layer({"b"}, 3)}, low{layer({"a"}, 2), layer({"b"}, 4)};
  const KeptLayers slower = slower_layers(high, low, {placed("a"), placed("b")});
  ASSERT_EQ(names(slower), (std::vector<std::string>{"b"}));
  EXPECT_EQ(slower.at("b"), "int8 is slower with its conversions: 4000000.0 us, not 3000000.0");
}

// The step that quantises what a reads comes from a, too.
TEST(CompareLayers, ConversionsCountWithTheLayerThatNeedsThem) {
  const std::vector<LayerTime> high{layer({"a", "relu"}, 3)}, low{layer({"a"}, 2), layer({"relu", "a"}, 2)};
  EXPECT_EQ(names(slower_layers(high, low, {placed("a")})), (std::vector<std::string>{"a"}));
}

// Fused in one of the engines: they stand or fall together.
TEST(CompareLayers, WhatSharesALayerIsComparedAsAWhole) {
  const std::vector<LayerTime> high{layer({"a"}, 1), layer({"b"}, 5)}, low{layer({"a", "b"}, 5)};
  EXPECT_TRUE(slower_layers(high, low, {placed("a"), placed("b")}).empty());
  EXPECT_EQ(names(slower_layers(low, high, {placed("a"), placed("b")})), (std::vector<std::string>{"a", "b"}));
}

TEST(CompareLayers, LayersThatAreNotQuantisedAnywayAreNotNamed) {
  const std::vector<LayerTime> high{layer({"a"}, 1), layer({}, 1)}, low{layer({"a"}, 5), layer({}, 3)};
  EXPECT_TRUE(slower_layers(high, low, {placed("a", false)}).empty());
}

}  // namespace
}  // namespace camshaft::compare_layers_test
