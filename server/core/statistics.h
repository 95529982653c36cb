// What a model's requests took.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/core/latency_summary.h"
#include "server/core/own_metrics.h"
#include "server/core/request.h"

namespace camshaft::server {

struct DurationStatistic {
  uint64_t count = 0, ns = 0;
};

struct BatchStatistic {
  DurationStatistic compute_input, compute_infer, compute_output;
};

/// How many took how long.
struct LatencyHistogram {
  /// Upper ends in microseconds; what takes longer than the last is behind it.
  static constexpr std::array<uint64_t, 22> bounds_us = {
      10,    20,     50,     100,    200,     500,     1000,    2000,     5000,     10000,    20000,
      50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000, 100000000};
  std::array<uint64_t, bounds_us.size() + 1> counts{};
  uint64_t sum_us = 0;

  void add(uint64_t us);
  uint64_t count() const;
  /// How many took at most so long, one of `bounds_us`.
  uint64_t count_until(uint64_t us) const;
};

/// Why a request failed, as the metrics tell them apart.
enum class FailureReason { rejected, cancelled, backend, other };

/// What there are summaries of.
enum class SummaryKind { request, queue, compute_input, compute_infer, compute_output, cache_hit, cache_miss };
constexpr size_t summary_kinds = 7;

struct SummaryFigures {
  uint64_t count = 0, sum_us = 0;
  std::vector<double> quantiles_us;  ///< NaN: nothing lately
};

/// All of one moment, as the statistics extension of the protocol has it.
struct StatisticsSnapshot {
  uint64_t last_inference_ms = 0;  ///< since 1970
  uint64_t inference_count = 0;    ///< elements of batches
  uint64_t execution_count = 0;    ///< runs
  DurationStatistic success, fail, queue, compute_input, compute_infer, compute_output, cache_hit, cache_miss;
  std::map<uint64_t, BatchStatistic> batches;  ///< by the size of the batch that ran
  std::map<FailureReason, uint64_t> failures;
  int64_t pending = 0;              ///< requests that wait
  double load_seconds = 0;          ///< how long it took until the version was there
  LatencyHistogram latency;         ///< of requests that succeeded, as `success`
  LatencyHistogram first_response;  ///< from the request to its first response: the same but of decoupled models
};

/// Safe from several threads.
class ModelStatistics {
 public:
  void request_queued();
  void request_left_queue();
  /// Of one request that was answered; `batch`: how many elements it had.
  void request_succeeded(const Timeline& timeline, Clock::time_point end, uint64_t batch);
  void first_response(const Timeline& timeline, Clock::time_point now);
  void request_failed(const Timeline& timeline, Clock::time_point end, FailureReason reason);
  /// Of one run: `batch` elements of all its requests.
  void executed(const Timeline& timeline, uint64_t batch);
  void cache_hit(Clock::duration lookup);
  void cache_missed(Clock::duration lookup_and_insertion);
  void loaded(Clock::duration time);
  StatisticsSnapshot snapshot() const;
  /// From now on there are summaries; they cost memory, 0.4 MB a model.
  void keep_summaries();
  /// `quantiles`: from 0 to 1. Of what is not kept there is nothing.
  SummaryFigures summary(SummaryKind kind, const std::vector<double>& quantiles) const;
  /// What the model counts itself.
  OwnMetrics& own_metrics() { return own_metrics_; }

 private:
  OwnMetrics own_metrics_;
  mutable std::mutex mutex_;
  void add(SummaryKind kind, DurationStatistic& total, uint64_t ns);

  StatisticsSnapshot total_;
  std::unique_ptr<std::array<LatencySummary, summary_kinds>> summaries_;  // null: none are kept
};

}  // namespace camshaft::server
