#include "base/worker.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/spin_wait.h"
#include "base/work_scope.h"

namespace camshaft {
namespace {

// The kernel may leave a spinning worker and the spinning caller on one core for many ms, the other cores idle (seen
// with a third of new two-thread pools on Linux 6.18: both looked busy and runnable, so nothing was pulled over). These
// two nudge a thread to another core and leave its affinity as it was.
void move_to(const cpu_set_t& cores) {
  cpu_set_t own;
  if (sched_getaffinity(0, sizeof own, &own) != 0) return;
  if (sched_setaffinity(0, sizeof cores, &cores) == 0) sched_setaffinity(0, sizeof own, &own);
}

void move_off_core(int core) {
  cpu_set_t others;
  if (sched_getaffinity(0, sizeof others, &others) != 0) return;
  CPU_CLR(static_cast<size_t>(core), &others);
  if (CPU_COUNT(&others) > 0) move_to(others);
}

// To the `steps`-th usable core after `core`.
void move_to_core_after(int core, int steps) {
  cpu_set_t usable, one;
  if (core < 0 || sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) < 2) return;
  while (steps > 0) {
    core = (core + 1) % CPU_SETSIZE;
    if (CPU_ISSET(static_cast<size_t>(core), &usable)) --steps;
  }
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(core), &one);
  move_to(one);
}

constexpr auto between_moves = std::chrono::milliseconds(10);

}  // namespace

void Loop::run_thread(int thread) noexcept {
  const int first = branches * thread + 1, end = std::min(first + branches, threads);
  for (int child = first; child < end; ++child) members[child - 1]->start(*this, child);
  try {
    const AdoptedScope adopted(scope);
    call(body, thread);
  } catch (...) {
    if (!failed.exchange(true, std::memory_order_relaxed)) failure = std::current_exception();
  }
  bool is_ours[branches] = {};
  for (int child = first; child < end; ++child) {
    is_ours[child - first] = members[child - 1]->take_back();
    if (is_ours[child - first]) run_thread(child);
  }
  for (int child = first; child < end; ++child)
    if (!is_ours[child - first]) members[child - 1]->await();
}

Worker::Worker(int number, bool oversubscribed) : oversubscribed_(oversubscribed) {
  handle_ = std::thread([this, number, core = sched_getcpu()] { work(number, core); });
  pthread_setname_np(handle_.native_handle(), ("camshaft-" + std::to_string(number)).c_str());
}

void Worker::publish() {
  started_.fetch_add(1, std::memory_order_seq_cst);
  if (worker_sleeps_.load(std::memory_order_seq_cst) != 0) futex_wake_all(started_);
}

void Worker::start(Loop& loop, int thread) {
  loop_ = &loop;
  thread_ = thread;
  caller_core_.store(loop.caller_core, std::memory_order_relaxed);
  publish();
}

bool Worker::take_back() {
  const uint32_t now = started_.load(std::memory_order_relaxed);
  uint32_t before = now - 1;
  return begun_.compare_exchange_strong(before, now, std::memory_order_acq_rel);
}

void Worker::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  publish();
  handle_.join();
}

uint32_t Worker::await_start_after(uint32_t seen) {
  const auto changed = [&] { return started_.load(std::memory_order_acquire) != seen; };
  if (!spin_until(changed, oversubscribed_)) {
    worker_sleeps_.store(1, std::memory_order_seq_cst);
    while (started_.load(std::memory_order_seq_cst) == seen) futex_wait(started_, seen);
    worker_sleeps_.store(0, std::memory_order_relaxed);
  }
  return started_.load(std::memory_order_acquire);
}

void Worker::await() {
  const uint32_t wanted = started_.load(std::memory_order_relaxed);
  if (spin_until([&] { return done_.load(std::memory_order_acquire) == wanted; }, oversubscribed_)) return;
  waiter_sleeps_.store(1, std::memory_order_seq_cst);
  for (uint32_t now; (now = done_.load(std::memory_order_seq_cst)) != wanted;) futex_wait(done_, now);
  waiter_sleeps_.store(0, std::memory_order_relaxed);
}

void Worker::work(int number, int creator_core) {
  if (!oversubscribed_) move_to_core_after(creator_core, number);
  auto moved = std::chrono::steady_clock::now();
  uint32_t seen = 0;
  for (;;) {
    seen = await_start_after(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    // Before it is known whose the part is: on the caller's core this thread comes too late each time.
    const int caller_core = caller_core_.load(std::memory_order_relaxed);
    if (!oversubscribed_ && sched_getcpu() == caller_core) {
      const auto now = std::chrono::steady_clock::now();
      if (now - moved > between_moves) {  // a move costs some 20 µs; the kernel may insist
        moved = now;
        move_off_core(caller_core);
      }
    }
    // What was taken back meanwhile is none of this thread's: the loop may be over.
    uint32_t before = seen - 1;
    if (!begun_.compare_exchange_strong(before, seen, std::memory_order_acq_rel)) continue;
    loop_->run_thread(thread_);
    done_.store(seen, std::memory_order_seq_cst);
    if (waiter_sleeps_.load(std::memory_order_seq_cst) != 0) futex_wake_all(done_);
  }
}

}  // namespace camshaft
