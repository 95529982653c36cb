// Thresholds against the published methods spelled out, and on distributions whose answer is known.
// tests/tools/test_calibrate.py holds the same against NumPy.
#include "quantize/calibrators.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "test_random.h"

namespace camshaft::calibrators_test {
namespace {

// NVIDIA's loop, bin by bin.
double plain_divergence(std::vector<double> bins, size_t i) {
  bins[0] = bins[1];
  std::map<size_t, std::pair<double, double>> levels;  // sum, filled bins
  const auto level_of = [&](size_t b) { return b * 128 / i; };
  double clipped = 0, p_sum = 0, q_sum = 0;
  for (size_t b = 0; b < bins.size(); ++b) {
    p_sum += bins[b];
    if (b >= i) clipped += bins[b];
    if (b >= i || bins[b] == 0) continue;
    levels[level_of(b)].first += bins[b];
    levels[level_of(b)].second += 1;
    q_sum += bins[b];
  }
  double divergence = 0;
  for (size_t b = 0; b < i; ++b) {
    const double p = (bins[b] + (b + 1 == i ? clipped : 0)) / p_sum;
    if (p == 0) continue;
    if (bins[b] == 0) return std::numeric_limits<double>::infinity();
    const auto& [sum, filled] = levels[level_of(b)];
    divergence += p * std::log(p / (sum / filled / q_sum));
  }
  return divergence;
}

size_t plain_entropy(const std::vector<uint64_t>& bins) {
  const std::vector<double> counts(bins.begin(), bins.end());
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 128; i <= bins.size(); ++i)
    if (const double divergence = plain_divergence(counts, i); divergence <= least) {
      least = divergence;
      best = i;
    }
  return best;
}

double plain_error(const std::vector<uint64_t>& bins, size_t i) {
  const double step = (static_cast<double>(i) + 0.5) / 127;
  double error = 0;
  for (size_t b = 0; b < bins.size(); ++b) {
    const double x = static_cast<double>(b) + 0.5, q = std::min(127.0, std::nearbyint(x / step)) * step;
    error += static_cast<double>(bins[b]) * (x - q) * (x - q);
  }
  return error;
}

// Distributions as tensors have them: half a normal, an exponential, few outliers, gaps.
std::vector<uint64_t> random_bins(Random& random) {
  std::vector<uint64_t> bins(static_cast<size_t>(random.integer(2048, 2600)));
  const int64_t kind = random.integer(0, 3);
  const double spread = random.uniform(0.05, 0.5) * static_cast<double>(bins.size());
  for (int i = 0; i < 200000; ++i) {
    const double x = kind == 1 ? -spread * std::log(1 - random.uniform()) : std::fabs(random.normal()) * spread;
    if (x >= static_cast<double>(bins.size())) continue;
    if (kind == 3 && static_cast<int64_t>(x) % 3 == 1) continue;
    ++bins[static_cast<size_t>(x)];
  }
  if (kind == 2)
    for (int i = 0; i < 5; ++i)
      ++bins[static_cast<size_t>(random.integer(1500, static_cast<int64_t>(bins.size()) - 1))];
  bins.back() += 1;
  return bins;
}

TEST(Calibrators, EntropyIsThePublishedMethod) {
  Random random = test_random();
  for (int round = 0; round < 12; ++round) {
    const std::vector<uint64_t> bins = random_bins(random);
    const size_t ours = static_cast<size_t>(std::lround(entropy_threshold(bins, 1))), plain = plain_entropy(bins);
    const std::vector<double> counts(bins.begin(), bins.end());
    // Of equal divergences either may round lower.
    EXPECT_NEAR(plain_divergence(counts, ours), plain_divergence(counts, plain), 1e-11) << ours << " and " << plain;
    EXPECT_EQ(ours, plain);
  }
}

TEST(Calibrators, MseIsTheLeastOfAll) {
  Random random = test_random();
  for (int round = 0; round < 8; ++round) {
    const std::vector<uint64_t> bins = random_bins(random);
    const auto ours = static_cast<size_t>(std::lround(mse_threshold(bins, 1) - 0.5F));
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 128; i < bins.size(); ++i) least = std::min(least, plain_error(bins, i));
    EXPECT_LE(plain_error(bins, ours), least * (1 + 1e-9));
  }
}

TEST(Calibrators, ADistributionWithoutTailIsNotClipped) {
  const std::vector<uint64_t> even(2048, 10);
  EXPECT_EQ(entropy_threshold(even, 0.5F), 1024);
  // Clipping one bin of 2048 costs less than a wider step does only far from the end.
  EXPECT_GT(mse_threshold(even, 0.5F), 1000);
  EXPECT_EQ(percentile_threshold(even, 0.5F, 100), 1024);
}

TEST(Calibrators, FarOutliersAreClipped) {
  std::vector<uint64_t> bins(2048);
  for (size_t b = 0; b < 300; ++b) bins[b] = 100000 - 300 * b;
  bins[2047] = 1;
  EXPECT_LT(entropy_threshold(bins, 1), 400);
  EXPECT_EQ(percentile_threshold(bins, 1, 99.99), 300);
  EXPECT_EQ(percentile_threshold(bins, 1, 100), 2048);
}

TEST(Calibrators, TheLastOfEqualThresholdsCounts) {
  // Nothing behind bin 1: all thresholds have divergence 0.
  std::vector<uint64_t> bins(2048);
  bins[1] = 7;
  EXPECT_EQ(entropy_threshold(bins, 1), 2048);
}

TEST(Calibrators, PercentileCountsMagnitudes) {
  std::vector<uint64_t> bins(2048);
  bins[0] = 50;
  bins[9] = 40;
  bins[2047] = 10;
  EXPECT_EQ(percentile_threshold(bins, 1, 50), 1);
  EXPECT_EQ(percentile_threshold(bins, 1, 50.1), 10);
  EXPECT_EQ(percentile_threshold(bins, 1, 90), 10);
  EXPECT_EQ(percentile_threshold(bins, 1, 90.1), 2048);
}

Histogram histogram_of(const std::vector<float>& x) {
  ThreadPool pool(1);
  cpu::MagnitudeCounter counter;
  Histogram histogram;
  histogram.add(x.data(), static_cast<int64_t>(x.size()), pool, counter);
  return histogram;
}

TEST(Calibrators, RangesAreWhatWasSeenClippedOnBothSides) {
  Random random = test_random();
  std::vector<float> x(200000);
  for (float& v : x) v = static_cast<float>(std::max(0.0, random.normal()));
  x[0] = 12;
  const auto all = {CalibrationMethod::entropy, CalibrationMethod::percentile, CalibrationMethod::mse};
  for (const CalibrationMethod method : all) {
    const TensorRange range = calibrated_range(histogram_of(x), method, 99);
    EXPECT_EQ(range.min, 0) << to_string(method);
    EXPECT_LT(range.max, 11) << to_string(method);
    EXPECT_GT(range.max, 2) << to_string(method);
  }
  EXPECT_EQ(calibrated_range(histogram_of(x), CalibrationMethod::minmax, 99), (TensorRange{0, 12}));
  for (float& v : x) v = -v;
  for (const CalibrationMethod method : all) {
    const TensorRange range = calibrated_range(histogram_of(x), method, 99);
    EXPECT_GT(range.min, -11) << to_string(method);
    EXPECT_EQ(range.max, 0) << to_string(method);
  }
  x[1] = 0.25F;
  EXPECT_EQ(calibrated_range(histogram_of(x), CalibrationMethod::percentile, 99).max, 0.25F);
}

TEST(Calibrators, ConstantsAndZeros) {
  for (const CalibrationMethod method :
       {CalibrationMethod::entropy, CalibrationMethod::minmax, CalibrationMethod::percentile, CalibrationMethod::mse}) {
    EXPECT_EQ(calibrated_range(histogram_of({0, 0, 0}), method, 99.99), (TensorRange{0, 0})) << to_string(method);
    const TensorRange range = calibrated_range(histogram_of({3, 3, 3}), method, 99.99);
    EXPECT_NEAR(range.min, 3, 0.002) << to_string(method);
    EXPECT_NEAR(range.max, 3, 0.002) << to_string(method);
  }
}

TEST(Calibrators, AreKnownByName) {
  EXPECT_EQ(parse_calibration_method("mse"), CalibrationMethod::mse);
  try {
    parse_calibration_method("max");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no calibration method is named 'max'; there are: entropy, minmax, percentile, mse");
  }
}

}  // namespace
}  // namespace camshaft::calibrators_test
