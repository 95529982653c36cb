// What the rules of dynamic batching make of a load: Poisson arrivals on a clock of the test's, instances whose runs
// take what they are expected to.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "server/core/batch_queue.h"
#include "server/core/make_pending.h"

namespace camshaft::server::batch_load_test {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int64_t max_batch = 16;
constexpr Milliseconds target{50};

/// Runs of n take `run + n * element` ms.
struct LinearTimes : BatchTimes {
  LinearTimes(double run, double element) {
    for (const int64_t n : {1, 2, 4, 8, 16})
      add(n,
          std::chrono::duration_cast<std::chrono::nanoseconds>(Milliseconds(run + static_cast<double>(n) * element)));
  }
  /// Elements a millisecond, of all instances at the largest batch.
  double peak(size_t instances) const {
    return static_cast<double>(instances * max_batch) / Milliseconds(expected(max_batch)).count();
  }
};

struct Figures {
  double not_in_time = 0;  ///< share of all requests that were answered behind the target, or refused
  Milliseconds mean{0};    ///< latency of those that were answered
};

/// `per_ms`: arrivals. `by_target`: with latency_target_ms; else what waits runs as soon as an instance is free.
Figures simulate(const BatchTimes& times, size_t instances, double per_ms, bool by_target) {
  constexpr int requests = 20000;
  std::mt19937_64 random(7);
  std::exponential_distribution<double> pause(per_ms);
  BatchPolicy policy;
  policy.max_batch = max_batch;
  if (by_target) policy.latency_target = std::chrono::duration_cast<std::chrono::nanoseconds>(target);
  BatchQueue queue(policy, by_target ? &times : nullptr);
  ModelStatistics statistics;
  Clock::time_point now = Clock::time_point() + std::chrono::hours(1), arrival = now;
  std::vector<Clock::time_point> free_at(instances, now);
  std::vector<PendingPtr> out;
  constexpr auto at_once = Clock::time_point::min();
  Clock::time_point wait_until = at_once;
  int arrived = 0, late = 0, refused = 0;
  Milliseconds total{0};
  while (arrived < requests || queue.size() > 0) {
    const auto first_free = std::min_element(free_at.begin(), free_at.end());
    Clock::time_point next = arrived < requests ? arrival : Clock::time_point::max();
    if (queue.size() > 0) next = std::min(next, std::max(*first_free, wait_until));
    now = std::max(now, next);
    if (arrived < requests && arrival <= now) {
      ++arrived;
      PendingPtr pending = make_pending(statistics, std::make_shared<Answer>(), 1, 1, arrival);
      try {
        queue.push(pending, now, free_at);
      } catch (const ServerError&) {
        pending->succeed({});
        ++refused;
      }
      arrival += std::chrono::duration_cast<Clock::duration>(Milliseconds(pause(random)));
    }
    wait_until = at_once;
    for (Clock::time_point& free : free_at) {
      if (free > now || queue.size() == 0) continue;
      BatchQueue::Decision decision = queue.next(now, out);
      if (decision.batch.empty()) {
        wait_until = decision.wait_until.value_or(at_once);
        break;
      }
      free = now + times.expected(static_cast<int64_t>(decision.batch.size()));
      for (const PendingPtr& pending : decision.batch) {
        const Milliseconds took = free - pending->request.timeline.queued;
        late += took > target;
        total += took;
        pending->succeed({});
      }
    }
  }
  return {static_cast<double>(late + refused) / requests, total / std::max(1, requests - refused)};
}

TEST(BatchLoad, ATargetTakesMoreInTime) {
  const LinearTimes times(2, 8);  // as of a network whose work grows with the batch
  for (const size_t instances : {1, 2}) {
    const double rate = (instances == 1 ? 0.48 : 0.66) * times.peak(instances);
    EXPECT_LE(simulate(times, instances, rate, true).not_in_time, 0.01) << instances;
    EXPECT_GT(simulate(times, instances, rate, false).not_in_time, 0.01) << instances;
  }
}

TEST(BatchLoad, WhatABatchDoesNotHastenRunsAlone) {
  const LinearTimes times(0.2, 5);  // as of networks that keep a core's units busy with one element
  for (const size_t instances : {1, 2}) {
    const double rate = (instances == 1 ? 0.75 : 0.85) * times.peak(instances);
    const Figures figures = simulate(times, instances, rate, true);
    EXPECT_LE(figures.not_in_time, 0.01) << instances;
    EXPECT_LT(figures.mean, 0.9 * simulate(times, instances, rate, false).mean) << instances;
  }
}

TEST(BatchLoad, InstancesDoNotIdleForLargerBatches) {
  const LinearTimes times(10, 1);  // a large batch takes little longer than a small one
  for (const double load : {0.1, 0.3, 0.5}) {
    const double rate = load * times.peak(2);
    EXPECT_LE(simulate(times, 2, rate, true).mean, 1.05 * simulate(times, 2, rate, false).mean) << load;
  }
}

TEST(BatchLoad, TheOldestDoesNotMakeAllLate) {
  const LinearTimes times(10, 1);
  EXPECT_LE(simulate(times, 1, 0.67 * times.peak(1), true).not_in_time, 0.01);
}

}  // namespace
}  // namespace camshaft::server::batch_load_test
