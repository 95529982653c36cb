#include "tools/latency.h"

#include <gtest/gtest.h>

namespace camshaft::tools::latency_test {
namespace {

TEST(Latency, Percentiles) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const Latency latency = summarize(times);
  EXPECT_EQ(latency.min, 1);
  EXPECT_EQ(latency.max, 100);
  EXPECT_EQ(latency.mean, 50.5);
  EXPECT_EQ(latency.median, 50);
  EXPECT_EQ(latency.p90, 90);
  EXPECT_EQ(latency.p95, 95);
  EXPECT_EQ(latency.p99, 99);
}

TEST(Latency, OneRunIsAllOfThem) {
  const Latency latency = summarize({0.1});
  for (const double value : {latency.min, latency.mean, latency.median, latency.p90, latency.p99, latency.max})
    EXPECT_EQ(value, 0.1);
}

// The mean of equal numbers may round to a neighbour.
TEST(Latency, MeanStaysBetweenMinimumAndMaximum) {
  for (int count = 1; count < 200; ++count) {
    const Latency latency = summarize(std::vector<double>(static_cast<size_t>(count), 0.1));
    EXPECT_EQ(latency.mean, 0.1) << count;
  }
}

}  // namespace
}  // namespace camshaft::tools::latency_test
