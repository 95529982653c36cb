// What monitoring reads of the server: counters and gauges by Triton's names, in Prometheus' text form.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/gpu_metrics.h"
#include "server/core/status.h"

namespace camshaft::server {

class Server;

struct MetricsOptions {
  bool enabled = true;
  bool cpu = true, gpu = true;  ///< of the machine; of NVIDIA's GPUs, where their driver is
  int interval_ms = 2000;       ///< how old the machine's figures may be
  bool counter_latencies = true;
  bool histogram_latencies = false;  ///< of the time to the first response
  bool summary_latencies = false;    ///< quantiles of the last minute: models must keep them
  std::vector<double> summary_quantiles = {0.5, 0.9, 0.95, 0.99, 0.999};
  /// One --metrics-config: "counter_latencies=false". Throws ServerError(invalid_argument), which lists the names.
  void configure(std::string_view setting);
};

/// Makes the text that a scrape reads. Safe from several threads.
class Metrics {
 public:
  Metrics(Server& server, MetricsOptions options) : server_(server), options_(std::move(options)) {}
  std::string text();

 private:
  struct Machine {
    double cpu_utilization = 0;
    uint64_t memory_total = 0, memory_used = 0;
  };
  Machine machine();
  std::vector<GpuFigures> machine_gpus();

  Server& server_;
  MetricsOptions options_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point read_;
  Machine machine_;
  std::chrono::steady_clock::time_point gpus_read_;
  std::vector<GpuFigures> gpus_;
  uint64_t busy_ = 0, ticks_ = 0;
};

}  // namespace camshaft::server
