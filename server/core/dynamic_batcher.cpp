#include "server/core/dynamic_batcher.h"

#include <utility>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

// How often a queue whose instances are all busy is looked through for clients that went away.
constexpr std::chrono::milliseconds watch_interval{50};

}  // namespace

DynamicBatcher::DynamicBatcher(std::vector<PlacedInstance> instances, Options options, ModelStatistics& statistics,
                               std::shared_ptr<BatchTimes> times)
    : options_(std::move(options)),
      statistics_(statistics),
      times_(std::move(times)),
      order_(options_.preserve_ordering ? std::make_shared<ResponseOrder>() : nullptr),
      queue_(options_.policy, times_.get()),
      instances_(std::move(instances)),
      free_at_(instances_.size()) {
  try {
    for (size_t place = 0; place < instances_.size(); ++place) threads_.emplace_back([this, place] { serve(place); });
    threads_.emplace_back([this] { watch(); });
  } catch (...) {  // the system has no more threads
    end();
    throw;
  }
}

DynamicBatcher::~DynamicBatcher() {
  end();
}

void DynamicBatcher::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  leader_.notify_all();
  followers_.notify_all();
  watcher_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void DynamicBatcher::submit(PendingPtr& pending) {
  Pending& request = *pending;
  std::unique_lock lock(mutex_);
  queue_.push(pending, Clock::now(), free_at_);
  if (order_) order_->enter(request);
  statistics_.request_queued();
  const bool wake_leader = leader_waits_, wake_watcher = !has_leader_ && watcher_waits_;
  lock.unlock();
  if (wake_leader) leader_.notify_one();
  if (wake_watcher) watcher_.notify_one();
}

void DynamicBatcher::refuse(std::vector<PendingPtr>& out) {
  for (const PendingPtr& pending : out) {
    statistics_.request_left_queue();
    if (pending->request.cancellation.cancelled())
      pending->fail({StatusCode::cancelled, "request is cancelled"}, FailureReason::cancelled);
    else
      pending->fail({StatusCode::unavailable, "Request timeout expired"}, FailureReason::rejected);
  }
  out.clear();
}

std::vector<PendingPtr> DynamicBatcher::lead(size_t place) {
  std::unique_lock lock(mutex_);
  free_at_[place] = Clock::time_point();
  followers_.wait(lock, [&] { return !has_leader_; });
  has_leader_ = true;
  BatchQueue::Decision decision;
  std::vector<PendingPtr> out;
  for (;;) {
    decision = queue_.next(Clock::now(), out);
    if (!out.empty()) {
      lock.unlock();
      refuse(out);
      lock.lock();
      if (decision.batch.empty()) continue;
    }
    if (!decision.batch.empty()) break;
    if (ending_ && queue_.size() == 0) break;
    if (ending_) {
      queue_.stop_waiting();
      continue;
    }
    leader_waits_ = true;
    if (decision.wait_until)
      leader_.wait_until(lock, *decision.wait_until);
    else
      leader_.wait(lock);
    leader_waits_ = false;
  }
  has_leader_ = false;
  note_start(place, decision.batch);
  const bool wake_watcher = queue_.size() > 0 && watcher_waits_;
  lock.unlock();
  followers_.notify_one();
  if (wake_watcher) watcher_.notify_one();
  return std::move(decision.batch);
}

void DynamicBatcher::note_start(size_t place, const std::vector<PendingPtr>& batch) {
  int64_t elements = 0;
  for (const PendingPtr& pending : batch) {
    elements += pending->batch;
    statistics_.request_left_queue();
  }
  if (times_ && elements > 0) free_at_[place] = Clock::now() + times_->expected(elements);
}

std::vector<PendingPtr> DynamicBatcher::take_ready(size_t place) {
  std::vector<PendingPtr> out;
  std::unique_lock lock(mutex_);
  if (has_leader_ || queue_.size() == 0) return {};  // a leader has found nothing to run now
  BatchQueue::Decision decision = queue_.next(Clock::now(), out);
  note_start(place, decision.batch);
  lock.unlock();
  refuse(out);
  return std::move(decision.batch);
}

void DynamicBatcher::serve(size_t place) {
  PlacedInstance& placed = instances_[place];
  const RateLimiter::Claim claim = options_.limiter && static_cast<size_t>(placed.group) < options_.claims.size()
                                       ? options_.claims[static_cast<size_t>(placed.group)]
                                       : RateLimiter::Claim();
  uint64_t executions = 0;
  bool holds = false;  // what its claim names
  for (;;) {
    std::vector<PendingPtr> batch;
    if (holds) {
      batch = take_ready(place);
      if (batch.empty())
        options_.limiter->release(claim);
      else
        options_.limiter->renew(claim, executions);
    }
    if (batch.empty()) {
      batch = lead(place);
      if (batch.empty()) return;
      if (options_.limiter) options_.limiter->acquire(claim, executions);
    }
    holds = options_.limiter != nullptr;
    int64_t total = 0;
    for (const PendingPtr& pending : batch) total += pending->batch;
    const Clock::time_point start = Clock::now();
    placed.instance->run(std::move(batch));
    if (times_) times_->add(total, Clock::now() - start);
  }
}

// While every instance runs nobody looks at the queue.
void DynamicBatcher::watch() {
  std::vector<PendingPtr> out;
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (queue_.size() == 0 || has_leader_) {
      watcher_waits_ = true;
      watcher_.wait(lock);
      watcher_waits_ = false;
      continue;
    }
    const Clock::time_point now = Clock::now();
    const auto next = queue_.sweep(now, out);
    if (!out.empty()) {
      lock.unlock();
      refuse(out);
      lock.lock();
      continue;
    }
    watcher_.wait_until(lock, std::min(next.value_or(now + watch_interval), now + watch_interval));
  }
}

}  // namespace camshaft::server
