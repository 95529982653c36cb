#include "quantize/migrate_channels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quantize/channel_magnitudes.h"

namespace camshaft::migrate_channels_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

TEST(MigrateChannels, ChannelsAboveTheMedianAreDivided) {
  const std::vector<float> magnitudes = {1, 0.5F, 1, 128, 1}, factors = migration_factors(magnitudes);
  ASSERT_EQ(factors.size(), magnitudes.size());
  for (const size_t c : {0, 1, 2, 4}) EXPECT_EQ(factors[c], 1) << c;
  EXPECT_EQ(factors[3], 32);  // 128^0.7 = 29.9
  const float left = 128 / factors[3];
  EXPECT_EQ(migrated_range({-2, 128}, magnitudes, factors), (TensorRange{-2, left}));
  EXPECT_EQ(migrated_range({-200, 3}, magnitudes, factors), (TensorRange{-left, 3}));
}

TEST(MigrateChannels, WhereNoneStandsOutNothingIsDone) {
  for (const std::vector<float>& even :
       {std::vector<float>{}, {0, 0}, {3}, {1, 1.2F, 1.5F, 2}, {1e-40F, 1e-40F, 3e38F}, {0, 0, 0, 5, 5}})
    EXPECT_TRUE(migration_factors(even).empty());
}

TEST(MigrateChannels, WhatAConvolutionGivesIsDividedByPowersOfTwo) {
  // 64 * 64^0.3 = 222; what is never there or never read says nothing.
  EXPECT_EQ(migration_powers(std::vector<float>{1, 64, 1, 0, 1.5F, 1}, std::vector<float>{1, 1.F / 64, 1, 1, 0, 1.2F}),
            (std::vector<float>{1, 256, 1, 1, 1, 1}));
  EXPECT_EQ(migration_powers(std::vector<float>{1, 1024, 1, 0.001F}, std::vector<float>{2, 2, 2, 2}),
            (std::vector<float>{1, 1024, 1, 1}));
}

TEST(MigrateChannels, ChannelsThatAreAlikeAreGivenAsTheyAre) {
  EXPECT_TRUE(migration_powers(std::vector<float>{1, 1.2F, 1.3F, 1}, std::vector<float>{1, 1, 1, 1}).empty());
  EXPECT_TRUE(migration_powers(std::vector<float>{0, 0}, std::vector<float>{1, 100}).empty());
  EXPECT_TRUE(migration_powers(std::vector<float>{}, std::vector<float>{}).empty());
}

TEST(ChannelMagnitudes, AreTheLargestFiniteOnesOfEachColumnWhateverTheThreads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    constexpr int64_t channels = 131, rows = 5;
    ChannelMagnitudes magnitudes(channels);
    std::vector<float> x(channels * rows), largest(channels);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) * (i % 2 == 0 ? -1.F : 1.F);
    x[3] = infinity, x[4] = nan, x[5 + channels] = -infinity;
    for (size_t i = 0; i < x.size(); ++i)
      if (std::isfinite(x[i])) largest[i % channels] = std::max(largest[i % channels], std::fabs(x[i]));
    magnitudes.add(x.data(), 2, 1, pool);
    magnitudes.add(x.data() + 2 * channels, rows - 2, 1, pool);
    magnitudes.add(x.data(), 0, 1, pool);
    EXPECT_EQ(magnitudes.largest(), largest);
    ChannelMagnitudes of_rows(rows);
    of_rows.add(x.data(), 1, channels, pool);
    for (int64_t r = 0; r < rows; ++r) {
      float most = 0;
      for (int64_t c = 0; c < channels; ++c)
        if (std::isfinite(x[r * channels + c])) most = std::max(most, std::fabs(x[r * channels + c]));
      EXPECT_EQ(of_rows.largest()[r], most);
    }
  }
}

}  // namespace
}  // namespace camshaft::migrate_channels_test
