// Metrics that models count themselves, as Triton's "custom metrics".
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace camshaft::server {

struct OwnMetric {
  double value = 0;              ///< of counters and gauges
  std::vector<double> bounds;    ///< upper ends, ascending; of histograms, as what follows
  std::vector<uint64_t> counts;  ///< by bucket; one more than bounds
  double sum = 0;
};

struct OwnMetricFamily {
  std::string kind, description;             ///< "counter", "gauge", "histogram"
  std::map<std::string, OwnMetric> metrics;  ///< by their labels as text: a="b",c="d"
};
using OwnMetricFamilies = std::map<std::string, OwnMetricFamily>;

/// What a process says of its metrics. Throws ServerError(internal) for what has no place in Prometheus' text.
OwnMetricFamilies own_metrics_of(const nlohmann::json& families);
/// Adds what others count by the same names and labels.
void add_own_metrics(OwnMetricFamilies& all, const OwnMetricFamilies& added);

/// Of one version's processes. Safe from several threads.
class OwnMetrics {
 public:
  void set(const void* process, OwnMetricFamilies families);
  /// Its metrics go with a process.
  void drop(const void* process);
  void add_to(OwnMetricFamilies& all) const;

 private:
  mutable std::mutex mutex_;
  std::map<const void*, OwnMetricFamilies> by_process_;
};

}  // namespace camshaft::server
