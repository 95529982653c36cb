// Requests of a model between its queue and its instances.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/core/backend.h"
#include "server/core/batch_queue.h"
#include "server/core/rate_limiter.h"
#include "server/core/response_order.h"
#include "server/core/scheduler.h"

namespace camshaft::server {

/// A thread for each instance. One of those that are idle, the leader, waits for requests and for the right moment;
/// when it has taken a batch another one leads. A request costs one lock and one wake-up on its way: check, queue, an
/// instance that does nothing and the answer took 8 µs in the median (two busy cores, Zen 3).
class DynamicBatcher : public Scheduler {
 public:
  struct Options {
    BatchPolicy policy;
    bool preserve_ordering = false;
    std::shared_ptr<RateLimiter> limiter;    ///< null: none
    std::vector<RateLimiter::Claim> claims;  ///< by group
  };
  DynamicBatcher(std::vector<PlacedInstance> instances, Options options, ModelStatistics& statistics,
                 std::shared_ptr<BatchTimes> times);
  /// Runs what waits, then stops.
  ~DynamicBatcher() override;

  void submit(PendingPtr& pending) override;

 private:
  void serve(size_t place);
  /// Takes the next batch of an instance; empty: the batcher ends.
  std::vector<PendingPtr> lead(size_t place);
  /// What lead() would give at once; empty: it would wait.
  std::vector<PendingPtr> take_ready(size_t place);
  void note_start(size_t place, const std::vector<PendingPtr>& batch);
  void watch();
  void refuse(std::vector<PendingPtr>& out);
  void end();

  Options options_;
  ModelStatistics& statistics_;
  std::shared_ptr<BatchTimes> times_;
  std::shared_ptr<ResponseOrder> order_;
  std::mutex mutex_;
  std::condition_variable leader_, followers_, watcher_;
  bool has_leader_ = false, leader_waits_ = false, ending_ = false, watcher_waits_ = false;
  BatchQueue queue_;
  std::vector<PlacedInstance> instances_;
  std::vector<Clock::time_point> free_at_;  ///< by instance: when it will have done what it runs, by the measured times
  std::vector<std::thread> threads_;
};

}  // namespace camshaft::server
