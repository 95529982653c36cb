#include "tools/latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace camshaft::tools {

Latency summarize(std::vector<double> milliseconds) {
  std::sort(milliseconds.begin(), milliseconds.end());
  const auto count = static_cast<double>(milliseconds.size());
  const auto percentile = [&](double part) {
    const auto rank = static_cast<size_t>(std::ceil(part * count));
    return milliseconds[std::max<size_t>(rank, 1) - 1];
  };
  Latency latency;
  latency.min = milliseconds.front();
  latency.max = milliseconds.back();
  // The sum of rounded terms can leave the interval by a last digit.
  latency.mean =
      std::clamp(std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0) / count, latency.min, latency.max);
  latency.median = percentile(0.5);
  latency.p90 = percentile(0.9);
  latency.p95 = percentile(0.95);
  latency.p99 = percentile(0.99);
  return latency;
}

nlohmann::json to_json(const Latency& latency) {
  return {{"min", latency.min}, {"mean", latency.mean}, {"median", latency.median}, {"p90", latency.p90},
          {"p95", latency.p95}, {"p99", latency.p99},   {"max", latency.max}};
}

}  // namespace camshaft::tools
