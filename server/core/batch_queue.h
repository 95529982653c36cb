// Which of the requests that wait run next, and when: the rules of dynamic batching, without threads or a clock.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "server/core/batch_times.h"
#include "server/core/model_config.h"
#include "server/core/pending.h"

namespace camshaft::server {

struct QueuePolicy {
  bool delay = false;  ///< what waited too long goes behind all others; else it is refused
  std::chrono::microseconds default_timeout{0};
  bool allow_override = false;
  size_t most = 0;  ///< requests; 0: no limit
};

struct BatchPolicy {
  int64_t max_batch = 1;
  std::set<int64_t> preferred;
  /// Sizes that instances are ready for; empty: for any. Others run where none of these is at hand.
  std::set<int64_t> ready;
  std::chrono::microseconds max_delay{0};
  uint64_t levels = 1;                                ///< of priority
  uint64_t default_level = 0;                         ///< from 0, the highest
  std::vector<QueuePolicy> queues = {QueuePolicy()};  ///< by level
  /// Of ragged inputs, by place, the most elements in one batch; 0: any number.
  std::vector<int64_t> most_elements;
  /// How long a request may take from its arrival to its answer; with it the measured times decide in place of
  /// `preferred` and `max_delay`.
  std::optional<std::chrono::nanoseconds> latency_target;
};

/// Of a completed configuration. Throws ServerError(invalid_argument), naming the field.
BatchPolicy make_batch_policy(const ModelConfig& config);

/// Not safe from several threads.
class BatchQueue {
 public:
  /// `times` may be null where the policy has no target.
  BatchQueue(BatchPolicy policy, const BatchTimes* times) : policy_(std::move(policy)), times_(times) {
    levels_.resize(policy_.levels);
  }

  /// `free_at`: when each instance will have done what it runs; with them a target refuses what would be late.
  /// Throws ServerError: unavailable for a queue that is full, resource_exhausted for one that is longer than the
  /// target allows, invalid_argument for a level that is not there. The request is left as it was then.
  void push(PendingPtr& pending, Clock::time_point now, std::span<const Clock::time_point> free_at = {});

  struct Decision {
    std::vector<PendingPtr> batch;  ///< runs now
    /// When to ask again if nothing comes; without a batch and without a time: when something comes.
    std::optional<Clock::time_point> wait_until;
  };
  /// `out`: gets those that waited too long or were cancelled, which leave the queue.
  Decision next(Clock::time_point now, std::vector<PendingPtr>& out);
  /// Takes those out alone; says when the next one will have waited too long.
  std::optional<Clock::time_point> sweep(Clock::time_point now, std::vector<PendingPtr>& out);
  /// From now on nothing waits for others: they no longer come.
  void stop_waiting() {
    policy_.max_delay = std::chrono::microseconds(0);
    policy_.latency_target.reset();
  }

  size_t size() const { return size_; }

 private:
  struct Level {
    Level() = default;
    Level(Level&&) = default;  // a deque would be copied
    std::deque<PendingPtr> waiting;
    std::deque<PendingPtr> delayed;  ///< those that waited too long, where they are not refused
    int64_t elements = 0;            ///< of both
  };
  struct Candidates {
    int64_t total = 0;                             ///< elements of the requests that fit together
    size_t requests = 0;                           ///< of them
    bool closed = false;                           ///< others wait that fit no more
    Clock::time_point oldest;                      ///< the earliest arrival
    std::vector<std::pair<int64_t, size_t>> sums;  ///< after each: elements and requests
    std::vector<int64_t> ragged;                   ///< elements of ragged inputs, by place
  };
  template <class Visit>
  void visit(Visit visit);
  Candidates candidates();
  bool has_room(const Candidates& found, const Pending& pending) const;
  bool is_ready(int64_t elements) const { return policy_.ready.empty() || policy_.ready.contains(elements); }
  size_t largest_ready(const Candidates& found) const;
  size_t choose(const Candidates& found, Clock::time_point now, std::optional<Clock::time_point>& wait_until) const;
  size_t choose_by_target(const Candidates& found, Clock::time_point now,
                          std::optional<Clock::time_point>& wait_until) const;
  size_t done_soonest(const Candidates& found, size_t requests) const;
  std::vector<PendingPtr> take(size_t requests);
  void refuse_what_is_late(const Pending& pending, Clock::time_point now,
                           std::span<const Clock::time_point> free_at) const;
  Clock::time_point expected_end(const Pending& pending, Clock::time_point now,
                                 std::span<const Clock::time_point> free_at) const;

  BatchPolicy policy_;
  const BatchTimes* times_;
  std::vector<Level> levels_;
  size_t size_ = 0;
  Clock::time_point next_sweep_;
  Clock::time_point last_arrival_;
  std::chrono::nanoseconds gap_{0};  ///< between arrivals, the mean of the last ones; 0: not known
  double busy_batch_ = 0;  ///< elements of a batch that left others waiting, the mean of the last ones; 0: not known
};

/// Whether two requests can be parts of one batch.
bool fit_together(const Pending& a, const Pending& b);

}  // namespace camshaft::server
