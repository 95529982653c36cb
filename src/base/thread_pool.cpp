#include "base/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "base/error.h"
#include "base/work_scope.h"
#include "base/workers_state.h"

namespace camshaft {

struct ThreadPool::Team {
  WorkerLease lease;
  Loop loop;
  std::atomic<bool> is_busy{false};
  bool has_session = false;

  int threads() const { return static_cast<int>(lease.members.size()) + 1; }
};

ThreadPool::ThreadPool(int threads) : most_(checked_threads(threads)), owns_workers_(true) {
  if (threads == 1) return;
  workers_ = std::make_shared<Workers>(threads);
  team_ = std::make_unique<Team>();
  team_->lease.most = threads;
  team_->lease.members.reserve(static_cast<size_t>(threads) - 1);
  workers_->state_->begin(team_->lease);
  size_ = team_->threads();
}

ThreadPool::ThreadPool(std::shared_ptr<Workers> workers, int threads)
    : most_(std::min(checked_threads(threads), workers->limit())), owns_workers_(false), workers_(std::move(workers)) {
  team_ = std::make_unique<Team>();
  team_->lease.most = most_;
  team_->lease.members.reserve(static_cast<size_t>(most_) - 1);
  workers_->state_->prepare(most_);
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::begin_session() {
  if (owns_workers_) return;
  if (team_->has_session && team_->lease.generation == fork_generation())
    throw Error(ErrorCode::internal, "a thread pool was asked for a second session while one is open");
  team_->lease.members.clear();  // of a session that the parent of this process has
  workers_->state_->begin(team_->lease);
  team_->has_session = true;
  size_ = team_->threads();
}

void ThreadPool::end_session() {
  if (owns_workers_) return;
  workers_->state_->end(team_->lease);
  team_->has_session = false;
  size_ = 1;
}

void ThreadPool::adapt() {
  if (owns_workers_ || !team_->has_session) return;
  if (workers_->state_->changes.load(std::memory_order_acquire) == team_->lease.seen_changes &&
      team_->lease.generation == fork_generation())
    return;
  workers_->state_->adapt(team_->lease);
  size_ = team_->threads();
}

void ThreadPool::run_erased(int threads, void* body, ErasedBody call) {
  if (threads > size_)
    throw Error(ErrorCode::internal,
                fmt::format("a loop of {} threads was asked of a pool that has {}", threads, size_));
  if (threads == 1) return call(body, 0);
  Team& team = *team_;
  if (team.lease.generation != fork_generation()) {
    workers_->state_->renew(team.lease);
    team.is_busy = false;  // another thread of the parent's was in a loop
  }
  if (team.is_busy.exchange(true, std::memory_order_acquire)) {
    throw Error(ErrorCode::internal, "a thread pool was asked for a second parallel loop while one is running on it");
  }
  Loop& loop = team.loop;
  loop.body = body;
  loop.call = call;
  loop.threads = threads;
  loop.members = team.lease.members.data();
  loop.caller_core = sched_getcpu();
  loop.scope = WorkScope::current();
  loop.run_thread(0);
  std::exception_ptr failure;
  if (loop.failed.load(std::memory_order_relaxed)) {
    failure = std::move(loop.failure);
    loop.failure = nullptr;
    loop.failed.store(false, std::memory_order_relaxed);
  }
  team.is_busy.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(std::move(failure));
}

}  // namespace camshaft
