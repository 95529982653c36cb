#include "quantize/calibrators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace camshaft {

namespace {

constexpr std::array<std::string_view, 4> method_names = {"entropy", "minmax", "percentile", "mse"};

constexpr size_t levels = 128;  // of 8 bits with a sign, from 0 on

double x_log_x(double x) {
  return x > 0 ? x * std::log(x) : 0;
}

/// Sums of what lies before each bin.
template <class Term>
std::vector<double> sums_before(size_t bins, const Term& term) {
  std::vector<double> sums(bins + 1, 0);
  for (size_t b = 0; b < bins; ++b) sums[b + 1] = sums[b] + term(b);
  return sums;
}

}  // namespace

std::string_view to_string(CalibrationMethod method) {
  return method_names[static_cast<size_t>(method)];
}

std::span<const std::string_view> calibration_method_names() {
  return method_names;
}

CalibrationMethod parse_calibration_method(const std::string& name) {
  for (size_t m = 0; m < method_names.size(); ++m)
    if (name == method_names[m]) return static_cast<CalibrationMethod>(m);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("no calibration method is named '{}'; there are: {}", name, fmt::join(method_names, ", ")));
}

// NVIDIA's code makes both distributions anew for every threshold: 2 million logarithms a tensor. Of sums over all bins
// before each, a threshold needs 128 of them.
float entropy_threshold(std::span<const uint64_t> bins, float width) {
  std::vector<double> count(bins.begin(), bins.end());
  count[0] = count[1];
  const size_t n = count.size();
  const std::vector<double> sum = sums_before(n, [&](size_t b) { return count[b]; });
  const std::vector<double> log_sum = sums_before(n, [&](size_t b) { return x_log_x(count[b]); });
  const std::vector<double> filled = sums_before(n, [&](size_t b) { return count[b] > 0 ? 1.0 : 0.0; });
  const double total = sum[n];
  if (total == 0) return static_cast<float>(n) * width;  // all in bin 0: nothing tells one threshold from another
  double least = std::numeric_limits<double>::infinity();
  size_t best = n;
  for (size_t i = levels; i <= n; ++i) {
    // KL(P || Q) = Σ p log(p / q): p are the counts, with what is clipped in the last bin, over their sum; q the mean
    // of the filled bins of each level, over their sum.
    const double clipped = total - sum[i], last = count[i - 1];
    if (clipped > 0 && last == 0) continue;  // infinite: what is clipped would be where Q has nothing
    double of_p = log_sum[i] - x_log_x(last) + x_log_x(last + clipped), of_q = 0;
    for (size_t level = 0; level < levels; ++level) {
      const size_t begin = (level * i + levels - 1) / levels, end = ((level + 1) * i + levels - 1) / levels;
      const double mass = sum[end] - sum[begin];
      if (mass <= 0) continue;
      const double log_mean = std::log(mass / (filled[end] - filled[begin]));
      of_q += mass * log_mean;
      if (level + 1 == levels) of_q += clipped * log_mean;
    }
    const double divergence = (of_p - of_q) / total + std::log(sum[i] / total);
    // What differs by the rounding of these sums is equal, and of equal ones the last counts.
    constexpr double rounding = 1e-12;
    if (divergence <= least + rounding) {
      least = std::min(least, divergence);
      best = i;
    }
  }
  return static_cast<float>(best) * width;
}

float percentile_threshold(std::span<const uint64_t> bins, float width, double percent) {
  double total = 0;
  for (const uint64_t count : bins) total += static_cast<double>(count);
  const double wanted = total * (percent / 100);
  double below = 0;
  for (size_t b = 0; b < bins.size(); ++b) {
    below += static_cast<double>(bins[b]);
    if (below > 0 && below >= wanted) return static_cast<float>(b + 1) * width;
  }
  return static_cast<float>(bins.size()) * width;
}

float mse_threshold(std::span<const uint64_t> bins, float width) {
  // In widths: bin b is at b + 0.5.
  const auto middle = [](size_t b) { return static_cast<double>(b) + 0.5; };
  const auto moment = [&](int power) {
    return sums_before(bins.size(),
                       [&](size_t b) { return static_cast<double>(bins[b]) * std::pow(middle(b), power); });
  };
  const std::vector<double> count = moment(0), first = moment(1), second = moment(2);
  double least = std::numeric_limits<double>::infinity();
  size_t best = levels;
  for (size_t i = levels; i < bins.size(); ++i) {
    const double step = middle(i) / (levels - 1);
    double error = 0;
    size_t begin = 0;
    for (size_t level = 0; level < levels; ++level) {
      const double level_end = (static_cast<double>(level) + 0.5) * step - 0.5;
      const size_t end = level + 1 == levels
                             ? bins.size()
                             : std::min(bins.size(), static_cast<size_t>(std::max(0.0, std::ceil(level_end))));
      const double at = static_cast<double>(level) * step;
      error +=
          second[end] - second[begin] - 2 * at * (first[end] - first[begin]) + at * at * (count[end] - count[begin]);
      begin = end;
    }
    if (error < least) {
      least = error;
      best = i;
    }
  }
  return static_cast<float>(middle(best)) * width;
}

TensorRange calibrated_range(const Histogram& histogram, CalibrationMethod method, double percentile) {
  const cpu::NumberSummary& seen = histogram.summary();
  const std::vector<uint64_t> bins = histogram.bins();
  if (method == CalibrationMethod::minmax || bins.empty()) return {seen.min, seen.max};
  const float threshold = method == CalibrationMethod::entropy ? entropy_threshold(bins, histogram.width())
                          : method == CalibrationMethod::percentile
                              ? percentile_threshold(bins, histogram.width(), percentile)
                              : mse_threshold(bins, histogram.width());
  return {std::clamp(seen.min, -threshold, threshold), std::clamp(seen.max, -threshold, threshold)};
}

}  // namespace camshaft
