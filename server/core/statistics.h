// What a model's requests took.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "server/core/request.h"

namespace camshaft::server {

struct DurationStatistic {
  uint64_t count = 0, ns = 0;
};

struct BatchStatistic {
  DurationStatistic compute_input, compute_infer, compute_output;
};

/// Why a request failed, as the metrics tell them apart.
enum class FailureReason { rejected, cancelled, backend, other };

/// All of one moment, as the statistics extension of the protocol has it.
struct StatisticsSnapshot {
  uint64_t last_inference_ms = 0;  ///< since 1970
  uint64_t inference_count = 0;    ///< elements of batches
  uint64_t execution_count = 0;    ///< runs
  DurationStatistic success, fail, queue, compute_input, compute_infer, compute_output, cache_hit, cache_miss;
  std::map<uint64_t, BatchStatistic> batches;  ///< by the size of the batch that ran
  std::map<FailureReason, uint64_t> failures;
  int64_t pending = 0;  ///< requests that wait
};

/// Safe from several threads.
class ModelStatistics {
 public:
  void request_queued();
  void request_left_queue();
  /// Of one request that was answered; `batch`: how many elements it had.
  void request_succeeded(const Timeline& timeline, Clock::time_point end, uint64_t batch);
  void request_failed(const Timeline& timeline, Clock::time_point end, FailureReason reason);
  /// Of one run: `batch` elements of all its requests.
  void executed(const Timeline& timeline, uint64_t batch);
  void cache_hit(Clock::duration lookup);
  void cache_missed(Clock::duration lookup_and_insertion);
  StatisticsSnapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  StatisticsSnapshot total_;
};

}  // namespace camshaft::server
