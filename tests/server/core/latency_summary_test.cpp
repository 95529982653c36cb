#include "server/core/latency_summary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace camshaft::server::latency_summary_test {
namespace {

using std::chrono::seconds;

const Clock::time_point begin = Clock::time_point() + std::chrono::hours(1);

TEST(LatencySummary, QuantilesAreThoseOfTheValues) {
  LatencySummary summary;
  EXPECT_TRUE(std::isnan(summary.quantile(0.5, begin)));
  for (uint64_t us = 1; us <= 1000; ++us) summary.add(1000 * us, begin);
  for (const double share : {0.001, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const double exact = 1000 * share;
    EXPECT_GE(summary.quantile(share, begin), exact) << share;
    EXPECT_LE(summary.quantile(share, begin), 1.016 * exact) << share;
  }
  EXPECT_GT(summary.quantile(0, begin), 0);
  EXPECT_EQ(summary.count(), 1000u);
  EXPECT_EQ(summary.sum_us(), 500500u);
}

TEST(LatencySummary, TellsOfTheLastMinuteAlone) {
  LatencySummary summary;
  summary.add(1000, begin);
  summary.add(9000, begin + seconds(30));
  EXPECT_NEAR(summary.quantile(0, begin + seconds(45)), 1, 0.02);
  EXPECT_NEAR(summary.quantile(0, begin + seconds(75)), 9, 0.2);
  EXPECT_TRUE(std::isnan(summary.quantile(0, begin + seconds(150))));
  EXPECT_EQ(summary.count(), 2u);
  summary.add(5000, begin + seconds(1000));
  EXPECT_NEAR(summary.quantile(1, begin + seconds(1000)), 5, 0.1);
}

TEST(LatencySummary, AnyDurationHasAPlace) {
  LatencySummary summary;
  for (const uint64_t ns : {uint64_t{0}, uint64_t{63}, uint64_t{64}, uint64_t{127}, ~uint64_t{0}})
    summary.add(ns, begin);
  EXPECT_EQ(summary.quantile(0, begin), 0);
  EXPECT_NEAR(summary.quantile(0.4, begin), 0.063, 1e-9);
  EXPECT_NEAR(summary.quantile(0.6, begin), 0.064, 1e-9);
  EXPECT_NEAR(summary.quantile(0.8, begin), 0.127, 1e-9);
  EXPECT_GT(summary.quantile(1, begin), 3.6e9);
}

}  // namespace
}  // namespace camshaft::server::latency_summary_test
