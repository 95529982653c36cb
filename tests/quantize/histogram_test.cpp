#include "quantize/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "test_random.h"

namespace camshaft::histogram_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

Histogram histogram_of(const std::vector<std::vector<float>>& tensors, int threads = 1) {
  ThreadPool pool(threads);
  cpu::MagnitudeCounter counter;
  Histogram histogram;
  for (const std::vector<float>& x : tensors) histogram.add(x.data(), static_cast<int64_t>(x.size()), pool, counter);
  return histogram;
}

uint64_t sum(const std::vector<uint64_t>& bins) {
  return std::accumulate(bins.begin(), bins.end(), uint64_t{0});
}

TEST(Histogram, TheFirstTensorSettlesTheWidth) {
  const Histogram histogram = histogram_of({{0, 0.5F, -1, 2047.5F, -2048}});
  EXPECT_EQ(histogram.width(), 1);
  const std::vector<uint64_t> bins = histogram.bins();
  ASSERT_EQ(bins.size(), 2048U);
  EXPECT_EQ(bins[0], 2U);
  EXPECT_EQ(bins[1], 1U);
  EXPECT_EQ(bins[2047], 2U);
  EXPECT_EQ(sum(bins), 5U);
  EXPECT_EQ(histogram.summary().min, -2048);
  EXPECT_EQ(histogram.summary().max, 2047.5F);
}

TEST(Histogram, LargerNumbersAddBinsOfTheSameWidth) {
  const Histogram histogram = histogram_of({{2048}, {1, 4095.5F}});
  EXPECT_EQ(histogram.width(), 1);
  const std::vector<uint64_t> bins = histogram.bins();
  ASSERT_EQ(bins.size(), 4096U);
  EXPECT_EQ(bins[1], 1U);
  EXPECT_EQ(bins[2047], 1U);
  EXPECT_EQ(bins[4095], 1U);
}

TEST(Histogram, BeyondTheMostBinsNeighboursBecomeOne) {
  const Histogram histogram = histogram_of({{2048, 1, 2, 3}, {65536}});
  EXPECT_EQ(histogram.width(), 2);
  const std::vector<uint64_t> bins = histogram.bins();
  ASSERT_EQ(bins.size(), 32768U);
  EXPECT_EQ(bins[0], 1U);
  EXPECT_EQ(bins[1], 2U);
  EXPECT_EQ(bins[1023], 1U);
  EXPECT_EQ(bins[32767], 1U);
  EXPECT_EQ(sum(bins), 5U);
}

TEST(Histogram, FromTheSmallestToTheLargestNumber) {
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  for (const auto& tensors :
       {std::vector<std::vector<float>>{{least}, {most}}, {{most}, {least}}, {{1e-30F}, {1}, {most}}}) {
    const Histogram histogram = histogram_of(tensors);
    const std::vector<uint64_t> bins = histogram.bins();
    EXPECT_LE(bins.size(), 32768U);
    EXPECT_GE(bins.size(), 2048U);
    EXPECT_EQ(sum(bins), tensors.size());
    EXPECT_TRUE(std::isfinite(histogram.width() * static_cast<float>(bins.size() / 2)));
    EXPECT_EQ(histogram.summary().largest(), most);
  }
}

TEST(Histogram, ZerosAloneMakeNoBins) {
  EXPECT_TRUE(histogram_of({{0, 0}, {-0.0F}}).bins().empty());
  EXPECT_EQ(histogram_of({{0, 0}, {-0.0F}}).summary().zeros, 3);
  EXPECT_EQ(histogram_of({{0, 0}, {-0.0F}, {4}}).bins()[0], 3U);
  EXPECT_TRUE(histogram_of({{}}).bins().empty());
}

TEST(Histogram, SpecialNumbersAreInNoBin) {
  const Histogram histogram = histogram_of({{nan, 1, infinity, -2, -infinity}});
  EXPECT_EQ(sum(histogram.bins()), 2U);
  EXPECT_EQ(histogram.summary().nans, 1);
  EXPECT_EQ(histogram.summary().infinities, 2);
  EXPECT_EQ(histogram.summary().max, 1);
  EXPECT_TRUE(histogram_of({{nan, infinity}}).bins().empty());
}

TEST(Histogram, IsTheSameWhateverTheThreads) {
  Random random = test_random();
  std::vector<std::vector<float>> tensors(5);
  float scale = 1;
  for (std::vector<float>& x : tensors) {
    x.resize(static_cast<size_t>(random.integer(40000, 90000)));
    for (float& v : x) v = static_cast<float>(random.normal()) * scale;
    scale *= 3;
  }
  const Histogram one = histogram_of(tensors);
  for (const int threads : {2, 3, 7}) {
    const Histogram other = histogram_of(tensors, threads);
    EXPECT_EQ(other.bins(), one.bins());
    EXPECT_EQ(other.summary(), one.summary());
    EXPECT_EQ(other.width(), one.width());
  }
}

}  // namespace
}  // namespace camshaft::histogram_test
