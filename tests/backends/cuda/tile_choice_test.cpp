// What contractions may be computed in.
#include "backends/cuda/tactics/tile_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace camshaft::cuda::tile_choice_test {
namespace {

DeviceFacts hopper() {
  DeviceFacts facts;
  facts.features = features_of(90);
  facts.multiprocessors = 132;
  facts.shared_bytes_per_block = 227 * 1024;
  return facts;
}

const ContractForm half{.dtype = DType::f16, .tensor_cores = true};

TEST(TileChoice, ChoicesHaveNamesOfTheirOwnAndComeInOrder) {
  for (const ContractSize& size :
       {ContractSize{3136, 64, 576, 1}, ContractSize{1, 1000, 2048, 1}, ContractSize{128, 128, 64, 12}}) {
    const std::vector<TileChoice> choices = tile_choices(half, size, hopper());
    ASSERT_FALSE(choices.empty());
    std::set<std::string> names;
    for (size_t c = 0; c < choices.size(); ++c) {
      EXPECT_TRUE(names.insert(choices[c].parameters().str()).second) << choices[c].parameters().str();
      EXPECT_LE(choices[c > 0 ? c - 1 : 0].seconds, choices[c].seconds);
    }
    // Every tile, unsplit, is there whatever the cost model thinks of it.
    for (const ContractTile& tile : contract_tiles(half, features_of(90)))
      EXPECT_TRUE(names.contains(TileChoice{tile, 1, 0}.parameters().str()));
  }
}

// Rings of steps stand beside those of slices: where blocks have little shared memory there is a tile with room for
// both.
TEST(TileChoice, WeightsOfFewBitsHaveTilesOnEveryDevice) {
  for (const auto& [capability, kilobytes] : {std::pair(75, 64), {80, 163}, {86, 99}, {90, 227}})
    for (const DType x : {DType::f16, DType::f32})
      for (const int bits : {2, 4, 8})
        for (const DType scale : {DType::f16, DType::f32})
          for (int shared = 1; shared <= 64 / bit_width(x); shared *= 2)
            for (const bool has_zeros : {false, true}) {
              DeviceFacts device = hopper();
              device.features = features_of(capability);
              device.shared_bytes_per_block = kilobytes * 1024;
              const ContractForm form{
                  .dtype = x, .tensor_cores = x == DType::f16, .steps = StepForm{bits, scale, shared, has_zeros}};
              EXPECT_FALSE(tile_choices(form, {32, 4096, 4096, 1}, device).empty())
                  << capability << ": " << bits << " bits, " << shared << " matrices a scale of " << to_string(scale);
            }
}

TEST(TileChoice, PatchesAreOfPairsOfPixelsOfEightChannels) {
  const auto has_patches = [](ContractWindow window, double groups = 1, int capability = 90) {
    ContractForm form = half;
    form.window = window;
    DeviceFacts device = hopper();
    device.features = features_of(capability);
    const auto choices = tile_choices(form, {12544, 64, 224, groups}, device);
    std::set<std::string> names;
    for (const TileChoice& choice : choices) EXPECT_TRUE(names.insert(choice.parameters().str()).second);
    return std::any_of(choices.begin(), choices.end(), [](const TileChoice& c) { return c.tile.patch_rows > 0; });
  };
  const ContractWindow image{.channels = 8, .height = 7, .width = 4, .stride_y = 2};
  EXPECT_TRUE(has_patches(image));
  EXPECT_FALSE(has_patches(image, 2));
  EXPECT_FALSE(has_patches(image, 1, 80));
  EXPECT_FALSE(has_patches({.channels = 16, .height = 7, .width = 4}));
  EXPECT_FALSE(has_patches({.channels = 8, .height = 7, .width = 4, .stride_x = 2}));
  EXPECT_FALSE(has_patches({.channels = 8, .height = 3, .width = 3}));
  EXPECT_TRUE(has_patches({.channels = 8, .height = 6, .width = 3, .stride_y = 2}));
  EXPECT_FALSE(has_patches({.channels = 8, .height = 6, .width = 3, .stride_y = 3}));
  EXPECT_FALSE(has_patches({.channels = 8, .height = 100, .width = 100}));
}

TEST(TileChoice, F32IsRoundedToTf32OnlyWhereItMayBeAndDevicesCan) {
  const auto count = [](bool allowed, int capability) {
    const auto tiles = contract_tiles({.dtype = DType::f32, .tf32 = allowed}, features_of(capability));
    return std::pair(std::count_if(tiles.begin(), tiles.end(), [](const ContractTile& t) { return t.tf32; }),
                     std::count_if(tiles.begin(), tiles.end(), [](const ContractTile& t) { return !t.tf32; }));
  };
  EXPECT_EQ(count(false, 90).first, 0);
  EXPECT_EQ(count(true, 75).first, 0);
  EXPECT_GT(count(true, 80).first, 0);
  EXPECT_GT(count(true, 90).second, 0);  // the exact ones stay
  std::set<std::string> names;
  const ContractForm form{.dtype = DType::f32, .tf32 = true};
  for (const TileChoice& choice : tile_choices(form, {256, 256, 256, 1}, hopper()))
    EXPECT_TRUE(names.insert(choice.parameters().str()).second) << choice.parameters().str();
}

TEST(TileChoice, SplitsAreOfEqualLengthAndNoMoreThanSlices) {
  std::set<int> splits;
  for (const TileChoice& choice : tile_choices(half, {64, 64, 9 * 64, 1}, hopper())) splits.insert(choice.splits);
  EXPECT_EQ(splits, (std::set<int>{1, 2, 3, 5, 9}));
  splits.clear();
  for (const TileChoice& choice : tile_choices(half, {64, 64, 1, 1}, hopper())) splits.insert(choice.splits);
  EXPECT_EQ(splits, (std::set<int>{1}));
}

TEST(TileChoice, TilesThatTheDeviceHasNoRoomForAreLeftOut) {
  DeviceFacts small = hopper();
  small.shared_bytes_per_block = 64 * 1024;
  for (const TileChoice& choice : tile_choices(half, {1024, 1024, 1024, 1}, small))
    EXPECT_LE(choice.tile.shared_bytes(), 64 * 1024);
}

TEST(TileChoice, OneProductOrSeveralOfTheSameRowsAreTheSameWork) {
  const ContractSize one{1024, 64, 32, 1};
  EXPECT_TRUE(one.is_same_work({128, 64, 32, 8}));
  EXPECT_FALSE(one.is_same_work({128, 64, 32, 1}));
  EXPECT_FALSE(one.is_same_work({1024, 64, 64, 1}));
}

}  // namespace
}  // namespace camshaft::cuda::tile_choice_test
