#include "base/workers.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>

#include "base/available_cores.h"
#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/workers_state.h"

namespace camshaft {
namespace {

// All sets of the process. A fork takes all their mutexes first, so that the child finds each set as somebody left it.
struct Registry {
  std::mutex mutex;
  std::vector<Workers::State*> sets;
  std::atomic<unsigned> forks{0};
};

// Never destroyed: sets that live as long as the process leave it at any time.
Registry& registry();

void before_fork() {
  registry().mutex.lock();
  for (Workers::State* set : registry().sets) set->mutex.lock();
}

void after_fork() {
  for (Workers::State* set : registry().sets) set->mutex.unlock();
  registry().mutex.unlock();
}

void after_fork_in_child() {
  registry().forks.fetch_add(1, std::memory_order_relaxed);
  for (Workers::State* set : registry().sets) set->forget_workers();
  after_fork();
}

Registry& registry() {
  static Registry* const all = [] {
    auto* made = new Registry;
    if (pthread_atfork(before_fork, after_fork, after_fork_in_child) != 0)
      throw Error(ErrorCode::out_of_memory, "no memory to prepare for forks of the process");
    return made;
  }();
  return *all;
}

}  // namespace

unsigned fork_generation() {
  return registry().forks.load(std::memory_order_relaxed);
}

Workers::State::State(int most, bool more_than_cores) : limit(most), oversubscribed(more_than_cores) {
  const std::lock_guard lock(registry().mutex);
  registry().sets.push_back(this);
}

Workers::State::~State() {
  {
    const std::lock_guard lock(registry().mutex);
    std::erase(registry().sets, this);
  }
  for (const auto& worker : workers_) worker->stop();
}

void Workers::State::start_workers(int threads) {
  const size_t wanted = static_cast<size_t>(std::min(threads, limit)) - 1;
  if (workers_.size() >= wanted) return;
  std::string failure;
  try {
    const BlockedSignals signals;
    workers_.reserve(wanted);
    free_.reserve(wanted);
    while (workers_.size() < wanted) {
      workers_.push_back(std::make_unique<Worker>(static_cast<int>(workers_.size()) + 1, oversubscribed));
      free_.insert(free_.begin(), workers_.back().get());  // the first are taken first
    }
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (workers_.size() < wanted)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("only {} of {} threads could be started: {}; ask for fewer threads", workers_.size() + 1,
                            wanted + 1, failure));
}

void Workers::State::prepare(int threads) {
  const std::lock_guard lock(mutex);
  start_workers(threads);
}

// One thread for each session, its caller; the others go round, to those that can use them.
void Workers::State::divide() {
  for (WorkerLease* session : sessions_) session->share = 1;
  int left = limit - static_cast<int>(sessions_.size());
  for (bool given = true; given && left > 0;) {
    given = false;
    for (WorkerLease* session : sessions_) {
      if (left == 0 || session->share == session->most) continue;
      ++session->share;
      --left;
      given = true;
    }
  }
  announce_change();
}

// Workers may be with sessions that have not looked yet whether to give some back; they announce it when they have.
void Workers::State::take(WorkerLease& lease) {
  while (static_cast<int>(lease.members.size()) + 1 < lease.share && !free_.empty() &&
         static_cast<int>(sessions_.size()) + leased_ < limit) {
    lease.members.push_back(free_.back());
    free_.pop_back();
    ++leased_;
  }
}

void Workers::State::begin(WorkerLease& lease) {
  const std::lock_guard lock(mutex);
  start_workers(lease.most);
  sessions_.push_back(&lease);
  lease.generation = fork_generation();
  divide();
  lease.seen_changes = changes.load(std::memory_order_relaxed);
  take(lease);
}

void Workers::State::end(WorkerLease& lease) {
  const std::lock_guard lock(mutex);
  if (lease.generation == fork_generation()) {
    leased_ -= static_cast<int>(lease.members.size());
    while (!lease.members.empty()) {  // the next session finds them in the same order, still spinning
      free_.push_back(lease.members.back());
      lease.members.pop_back();
    }
    std::erase(sessions_, &lease);
    divide();
  }
  lease.members.clear();
}

void Workers::State::adapt(WorkerLease& lease) {
  if (lease.generation != fork_generation()) return renew(lease);
  const std::lock_guard lock(mutex);
  const bool gives = static_cast<int>(lease.members.size()) + 1 > lease.share;
  for (; static_cast<int>(lease.members.size()) + 1 > lease.share; --leased_) {
    free_.push_back(lease.members.back());
    lease.members.pop_back();
  }
  if (gives) announce_change();
  lease.seen_changes = changes.load(std::memory_order_relaxed);
  take(lease);
}

void Workers::State::renew(WorkerLease& lease) {
  const std::lock_guard lock(mutex);
  start_workers(lease.most);
  const size_t before = lease.members.size();
  lease.members.clear();
  lease.generation = fork_generation();
  sessions_.push_back(&lease);
  // A loop may have been cut for so many threads already. The child's other sessions have begun after this one.
  for (; lease.members.size() < before && !free_.empty(); ++leased_) {
    lease.members.push_back(free_.back());
    free_.pop_back();
  }
  divide();
  lease.seen_changes = changes.load(std::memory_order_relaxed);
}

void Workers::State::forget_workers() {
  for (auto& worker : workers_) static_cast<void>(worker.release());  // no thread uses them, but they may have handles
  workers_.clear();
  free_.clear();
  sessions_.clear();
  leased_ = 0;
}

int checked_threads(int threads) {
  const int most = std::max(most_threads, available_cores());
  if (threads < 1 || threads > most)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} threads were asked for; give 1 to {}", threads, most));
  return threads;
}

Workers::Workers(int limit) : limit_(checked_threads(limit)) {
  state_ = std::make_unique<State>(limit, limit > available_cores());
}

Workers::~Workers() = default;

const std::shared_ptr<Workers>& Workers::of_process() {
  // Never destroyed: a context may outlive what is destroyed when the process ends.
  static const auto* const workers = new std::shared_ptr<Workers>(std::make_shared<Workers>(available_cores()));
  return *workers;
}

}  // namespace camshaft
