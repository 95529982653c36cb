#include "base/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "camshaft/error.h"

namespace camshaft {
namespace {

// Between two kernels of a model lie a few µs, between two inferences often more than 50: long enough to catch the
// first, short enough not to burn a core through the second.
constexpr auto spin_time = std::chrono::microseconds(50);
// From here on the spinner offers its core at every turn: other processes may want it.
constexpr auto polite_after = std::chrono::microseconds(20);

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The futex system call itself, not std::atomic::wait: libstdc++ keeps waiters in a global hashed table, which two
// pools can share a line of, and always spins in its own way first.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

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

// Spins until `done()`; false if it was not so within spin_time.
template <class Done>
bool spin_until(const Done& done, bool oversubscribed) {
  // Reading the clock takes about 20 ns, as long as one pause: look at it every 32.
  for (int i = 0; i < 32; ++i) {
    if (done()) return true;
    oversubscribed ? static_cast<void>(sched_yield()) : pause();
  }
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    const auto spent = std::chrono::steady_clock::now() - start;
    if (spent > spin_time) return done();
    const bool yield = oversubscribed || spent > polite_after;
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      if (!yield) {
        pause();
      } else {
        sched_yield();
        break;
      }
    }
  }
}

}  // namespace

// One run is one generation. The caller publishes the body, sets `pending` and bumps `generation`; workers see the new
// generation, call the body and count `pending` down. Who finds nothing to do for spin_time announces itself (`parked`,
// `caller_parked`) and sleeps on the word it waits for. Announcing and the check of the other side's announcement are
// sequentially consistent on both sides, so that one of the two always sees the other and no wake-up is lost.
struct ThreadPool::State {
  // Written by the caller once a run, read by all workers.
  alignas(64) std::atomic<uint32_t> generation{0};
  void* body = nullptr;
  ErasedBody call = nullptr;
  int caller_core = -1;
  bool stopping = false;
  // Written by every worker once a run.
  alignas(64) std::atomic<uint32_t> pending{0};
  std::atomic<uint32_t> caller_parked{0};
  // Written rarely.
  alignas(64) std::atomic<uint32_t> parked{0};
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  // The caller's own.
  alignas(64) std::atomic<bool> busy{false};
  bool oversubscribed = false;
  std::vector<std::thread> workers;

  void publish() {
    generation.fetch_add(1, std::memory_order_seq_cst);
    if (parked.load(std::memory_order_seq_cst) != 0) futex_wake_all(generation);
  }

  uint32_t await_generation_after(uint32_t seen) {
    const auto changed = [&] { return generation.load(std::memory_order_acquire) != seen; };
    if (!spin_until(changed, oversubscribed)) {
      parked.fetch_add(1, std::memory_order_seq_cst);
      while (generation.load(std::memory_order_seq_cst) == seen) futex_wait(generation, seen);
      parked.fetch_sub(1, std::memory_order_relaxed);
    }
    return generation.load(std::memory_order_acquire);
  }

  void await_workers() {
    if (spin_until([&] { return pending.load(std::memory_order_acquire) == 0; }, oversubscribed)) return;
    caller_parked.store(1, std::memory_order_seq_cst);
    while (const uint32_t left = pending.load(std::memory_order_seq_cst)) futex_wait(pending, left);
    caller_parked.store(0, std::memory_order_relaxed);
  }

  void call_guarded(int thread) noexcept {
    try {
      call(body, thread);
    } catch (...) {
      if (!failed.exchange(true, std::memory_order_relaxed)) failure = std::current_exception();
    }
  }

  void work(int thread, int creator_core) {
    if (!oversubscribed) move_to_core_after(creator_core, thread);
    auto moved = std::chrono::steady_clock::now();
    uint32_t seen = 0;
    for (;;) {
      seen = await_generation_after(seen);
      if (stopping) return;
      if (sched_getcpu() == caller_core && !oversubscribed) {
        const auto now = std::chrono::steady_clock::now();
        if (now - moved > between_moves) {  // a move costs some 20 µs; the kernel may insist
          moved = now;
          move_off_core(caller_core);
        }
      }
      call_guarded(thread);
      if (pending.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_parked.load(std::memory_order_seq_cst) != 0) {
        futex_wake_all(pending);
      }
    }
  }

  void stop() {
    stopping = true;
    publish();
    for (std::thread& worker : workers) worker.join();
    workers.clear();
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  if (threads < 1) {
    throw Error(ErrorCode::invalid_argument,
                "a thread pool of " + std::to_string(threads) + " threads was asked for; give 1 or more");
  }
  if (threads == 1) return;
  state_ = std::make_unique<State>();
  state_->oversubscribed = threads > usable_cores();
  // Signals are the application's business: its own threads must get them (Ctrl-C), not these.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    state_->workers.reserve(static_cast<size_t>(threads) - 1);
    const int core = sched_getcpu();
    for (int i = 1; i < threads; ++i) {
      state_->workers.emplace_back([state = state_.get(), i, core] { state->work(i, core); });
      pthread_setname_np(state_->workers.back().native_handle(), ("camshaft-" + std::to_string(i)).c_str());
    }
  } catch (const std::exception& error) {
    const size_t started = state_->workers.size() + 1;
    state_->stop();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ErrorCode::out_of_memory, "only " + std::to_string(started) + " of " + std::to_string(threads) +
                                              " threads could be started: " + error.what() + "; ask for fewer threads");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ThreadPool::~ThreadPool() {
  if (state_) state_->stop();
}

void ThreadPool::run_erased(void* body, ErasedBody call) {
  if (!state_) return call(body, 0);
  State& state = *state_;
  if (state.busy.exchange(true, std::memory_order_acquire)) {
    throw Error(ErrorCode::internal, "a thread pool was asked for a second parallel loop while one is running on it");
  }
  state.body = body;
  state.call = call;
  state.caller_core = sched_getcpu();
  state.pending.store(static_cast<uint32_t>(threads_ - 1), std::memory_order_relaxed);
  state.publish();
  state.call_guarded(0);
  state.await_workers();
  std::exception_ptr failure;
  if (state.failed.load(std::memory_order_relaxed)) {
    failure = std::move(state.failure);
    state.failure = nullptr;
    state.failed.store(false, std::memory_order_relaxed);
  }
  state.busy.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(std::move(failure));
}

}  // namespace camshaft
