// Statistics of measured times.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

namespace camshaft::tools {

/// Of times in milliseconds; percentiles are the smallest time that at least that part of the runs does not exceed.
struct Latency {
  double min = 0, mean = 0, median = 0, p90 = 0, p95 = 0, p99 = 0, max = 0;
};

/// `milliseconds` must not be empty.
Latency summarize(std::vector<double> milliseconds);
nlohmann::json to_json(const Latency& latency);

}  // namespace camshaft::tools
