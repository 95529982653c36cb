#include "quantize/migrate_channels.h"

#include <algorithm>
#include <cmath>

namespace camshaft {

namespace {

constexpr float power = 0.7F, power_of_weights = 0.3F;

/// The nearest one, at least 1; 1 where the logarithm is not finite, as of channels that are always 0.
float power_of_two(float log) {
  return std::isfinite(log) ? std::exp2(std::nearbyint(std::max(0.F, log))) : 1;
}

/// With a factor of 1 alone nothing is to be done.
std::vector<float> if_any_stands_out(std::vector<float> factors) {
  const bool is_any = std::any_of(factors.begin(), factors.end(), [](float factor) { return factor > 1; });
  return is_any ? std::move(factors) : std::vector<float>();
}

/// Of what is not 0: channels that are always 0 say nothing about the others. 0 where all are.
float median_of(std::span<const float> magnitudes) {
  std::vector<float> sorted(magnitudes.begin(), magnitudes.end());
  std::erase(sorted, 0.F);
  if (sorted.empty()) return 0;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

}  // namespace

std::vector<float> migration_factors(std::span<const float> magnitudes) {
  const float median = median_of(magnitudes);
  if (median == 0) return {};
  std::vector<float> factors;
  for (const float magnitude : magnitudes) factors.push_back(power_of_two(power * std::log2(magnitude / median)));
  return if_any_stands_out(std::move(factors));
}

std::vector<float> migration_powers(std::span<const float> magnitudes, std::span<const float> weights) {
  const float usual = median_of(magnitudes), usual_weight = median_of(weights);
  std::vector<float> factors;
  for (size_t c = 0; c < magnitudes.size(); ++c) {
    const float log = std::log2(magnitudes[c] / usual) + power_of_weights * std::log2(usual_weight / weights[c]);
    factors.push_back(power_of_two(log));
  }
  return if_any_stands_out(std::move(factors));
}

TensorRange migrated_range(const TensorRange& range, std::span<const float> magnitudes,
                           std::span<const float> factors) {
  float largest = 0;
  for (size_t c = 0; c < factors.size(); ++c) largest = std::max(largest, magnitudes[c] / factors[c]);
  return {std::clamp(range.min, -largest, largest), std::clamp(range.max, -largest, largest)};
}

}  // namespace camshaft
