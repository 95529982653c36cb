#include "server/core/statistics.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace camshaft::server {

namespace {

uint64_t nanoseconds(Clock::duration duration) {
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
  return ns < 0 ? 0 : static_cast<uint64_t>(ns);
}

uint64_t nanoseconds(Clock::time_point from, Clock::time_point to) {
  return from == Clock::time_point() || to == Clock::time_point() ? 0 : nanoseconds(to - from);
}

void add_to(DurationStatistic& total, uint64_t ns) {
  ++total.count;
  total.ns += ns;
}

uint64_t milliseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// A request's time counts from its first byte where a front end has noted that.
Clock::time_point begin_of(const Timeline& timeline) {
  return timeline.received == Clock::time_point() ? timeline.queued : timeline.received;
}

}  // namespace

void LatencyHistogram::add(uint64_t us) {
  const auto place = std::lower_bound(bounds_us.begin(), bounds_us.end(), us) - bounds_us.begin();
  ++counts[static_cast<size_t>(place)];
  sum_us += us;
}

uint64_t LatencyHistogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

uint64_t LatencyHistogram::count_until(uint64_t us) const {
  uint64_t total = 0;
  for (size_t i = 0; i < bounds_us.size() && bounds_us[i] <= us; ++i) total += counts[i];
  return total;
}

void ModelStatistics::request_queued() {
  const std::lock_guard lock(mutex_);
  ++total_.pending;
}

void ModelStatistics::request_left_queue() {
  const std::lock_guard lock(mutex_);
  --total_.pending;
}

void ModelStatistics::request_succeeded(const Timeline& timeline, Clock::time_point end, uint64_t batch) {
  const uint64_t now = milliseconds_since_1970();
  const std::lock_guard lock(mutex_);
  total_.last_inference_ms = now;
  const uint64_t taken = nanoseconds(begin_of(timeline), end);
  add(SummaryKind::request, total_.success, taken);
  total_.latency.add(taken / 1000);
  // What the response cache answered was in no queue and no run.
  if (timeline.compute_start == Clock::time_point()) return;
  total_.inference_count += batch;
  add(SummaryKind::queue, total_.queue, nanoseconds(timeline.queued, timeline.compute_start));
  add(SummaryKind::compute_input, total_.compute_input, nanoseconds(timeline.compute_start, timeline.input_end));
  add(SummaryKind::compute_infer, total_.compute_infer, nanoseconds(timeline.input_end, timeline.output_start));
  add(SummaryKind::compute_output, total_.compute_output, nanoseconds(timeline.output_start, timeline.compute_end));
}

void ModelStatistics::first_response(const Timeline& timeline, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  total_.first_response.add(nanoseconds(begin_of(timeline), now) / 1000);
}

void ModelStatistics::request_failed(const Timeline& timeline, Clock::time_point end, FailureReason reason) {
  const std::lock_guard lock(mutex_);
  add_to(total_.fail, nanoseconds(begin_of(timeline), end));
  ++total_.failures[reason];
}

void ModelStatistics::executed(const Timeline& timeline, uint64_t batch) {
  const std::lock_guard lock(mutex_);
  ++total_.execution_count;
  BatchStatistic& statistic = total_.batches[batch];
  add_to(statistic.compute_input, nanoseconds(timeline.compute_start, timeline.input_end));
  add_to(statistic.compute_infer, nanoseconds(timeline.input_end, timeline.output_start));
  add_to(statistic.compute_output, nanoseconds(timeline.output_start, timeline.compute_end));
}

void ModelStatistics::cache_hit(Clock::duration lookup) {
  const std::lock_guard lock(mutex_);
  add(SummaryKind::cache_hit, total_.cache_hit, nanoseconds(lookup));
}

void ModelStatistics::cache_missed(Clock::duration lookup_and_insertion) {
  const std::lock_guard lock(mutex_);
  add(SummaryKind::cache_miss, total_.cache_miss, nanoseconds(lookup_and_insertion));
}

void ModelStatistics::add(SummaryKind kind, DurationStatistic& total, uint64_t ns) {
  add_to(total, ns);
  if (summaries_) (*summaries_)[static_cast<size_t>(kind)].add(ns, Clock::now());
}

void ModelStatistics::loaded(Clock::duration time) {
  const std::lock_guard lock(mutex_);
  total_.load_seconds = std::chrono::duration<double>(time).count();
}

void ModelStatistics::keep_summaries() {
  const std::lock_guard lock(mutex_);
  summaries_ = std::make_unique<std::array<LatencySummary, summary_kinds>>();
}

SummaryFigures ModelStatistics::summary(SummaryKind kind, const std::vector<double>& quantiles) const {
  const std::lock_guard lock(mutex_);
  if (!summaries_) return {};
  const LatencySummary& summary = (*summaries_)[static_cast<size_t>(kind)];
  SummaryFigures figures{summary.count(), summary.sum_us(), {}};
  for (const double share : quantiles) figures.quantiles_us.push_back(summary.quantile(share, Clock::now()));
  return figures;
}

StatisticsSnapshot ModelStatistics::snapshot() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace camshaft::server
