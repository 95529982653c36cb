// How a tensor's numbers are counted, against loops over single elements.
#include "backends/cpu/kernels/reduce/magnitudes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "each_target.h"
#include "test_random.h"

namespace camshaft::cpu::magnitudes_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();

NumberSummary plain_summary(const std::vector<float>& x) {
  NumberSummary summary;
  for (const float v : x) {
    ++summary.count;
    summary.zeros += v == 0;
    summary.nans += std::isnan(v);
    summary.infinities += std::isinf(v);
    if (!std::isfinite(v)) continue;
    summary.min = std::min(summary.min, v);
    summary.max = std::max(summary.max, v);
  }
  return summary;
}

std::vector<uint64_t> plain_bins(const std::vector<float>& x, float bins_per_unit, size_t bins) {
  std::vector<uint64_t> counts(bins);
  for (const float v : x) {
    if (!std::isfinite(v) || v == 0) continue;
    const float at = std::fabs(v) * bins_per_unit;
    ++counts[at < static_cast<float>(bins) ? static_cast<size_t>(at) : bins - 1];
  }
  return counts;
}

void expect_counted(const std::vector<float>& x, float bins_per_unit, size_t bins) {
  const NumberSummary summary = plain_summary(x);
  const std::vector<uint64_t> counts = plain_bins(x, bins_per_unit, bins);
  for (const int threads : {1, 2, 5}) {
    SCOPED_TRACE(threads);
    ThreadPool pool(threads);
    EXPECT_EQ(summarize_numbers(pool, x.data(), static_cast<int64_t>(x.size())), summary);
    MagnitudeCounter counter;
    std::vector<uint64_t> counted(bins);
    // What is there already stays.
    for (uint64_t times = 1; times <= 2; ++times) {
      EXPECT_EQ(counter.run(pool, x.data(), static_cast<int64_t>(x.size()), bins_per_unit, counted), summary);
      const bool all_fit = summary.largest() * bins_per_unit <= static_cast<float>(bins);
      EXPECT_EQ(counter.has_rest(), !all_fit);
      counter.run_rest(pool, bins_per_unit, counted);
      EXPECT_FALSE(counter.has_rest());
      for (size_t b = 0; b < bins; ++b) ASSERT_EQ(counted[b], times * counts[b]);
    }
    // Without bins all but zeros is left; with them it is counted.
    EXPECT_EQ(counter.run(pool, x.data(), static_cast<int64_t>(x.size()), 0, {}), summary);
    EXPECT_EQ(counter.has_rest(), summary.largest() > 0);
    std::vector<uint64_t> later(bins);
    counter.run_rest(pool, bins_per_unit, later);
    EXPECT_EQ(later, counts);
  }
}

TEST(Magnitudes, OfAnyLength) {
  for_each_target([] {
    Random random = test_random();
    for (const size_t length : {0, 1, 3, 15, 16, 17, 31, 1023, 1024, 1025, 4096, 4099, 40000, 100003}) {
      SCOPED_TRACE(length);
      std::vector<float> x(length);
      for (float& v : x) v = std::max(0.0F, static_cast<float>(random.normal()));
      expect_counted(x, 700, 2048);
    }
  });
}

TEST(Magnitudes, OfSpecialNumbers) {
  for_each_target([] {
    Random random = test_random();
    const std::vector<float> special = {nan,     -nan,   infinity, -infinity, 0.0F, -0.0F, 1e-45F,
                                        -1e-45F, 1e-38F, 3e38F,    -3e38F,    1.0F, -1.0F};
    for (const size_t length : {1, 16, 33, 5000, 33000}) {
      SCOPED_TRACE(length);
      std::vector<float> x(length);
      for (float& v : x) v = special[static_cast<size_t>(random.integer(0, static_cast<int64_t>(special.size()) - 1))];
      expect_counted(x, 1000, 2048);
      expect_counted(x, 3e37F, 128);
    }
    expect_counted(std::vector<float>(5000, nan), 1, 128);
    expect_counted(std::vector<float>(5000, -infinity), 1, 128);
    expect_counted(std::vector<float>(5000, 0), 1, 128);
  });
}

TEST(Magnitudes, InFewAndManyBins) {
  for_each_target([] {
    Random random = test_random();
    std::vector<float> x(70001);
    for (float& v : x) v = static_cast<float>(random.normal());
    for (const size_t bins : {1, 2, 128, 4096, 4097, 32768}) {
      SCOPED_TRACE(bins);
      expect_counted(x, static_cast<float>(bins) / 5, bins);
    }
  });
}

TEST(Magnitudes, LargestIsThatOfTheFiniteOnes) {
  ThreadPool pool(1);
  const std::vector<float> x = {1, -7, nan, infinity, 3};
  EXPECT_EQ(summarize_numbers(pool, x.data(), 5).largest(), 7);
  EXPECT_EQ(summarize_numbers(pool, x.data() + 2, 2).largest(), 0);
  EXPECT_EQ(summarize_numbers(pool, x.data(), 0).largest(), 0);
}

}  // namespace
}  // namespace camshaft::cpu::magnitudes_test
