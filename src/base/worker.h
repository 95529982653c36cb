// A worker thread and the loop that it takes part in. Internal to the thread pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>

namespace camshaft {

class Worker;
class WorkScope;

/// A parallel loop. Its threads form a tree, the caller at the root: each starts those below it, calls the body, and
/// waits for those below. Whoever waits looks at words of its own, each on a cache line of its own, so that no line
/// goes round all cores; with five threads or fewer the caller does it all.
///
/// Who has done its own part takes back those of the threads below that have not begun: on a machine that is busy with
/// something else a worker comes some ms late, a hundred times what its part takes.
struct Loop {
  static constexpr int branches = 4;

  void* body = nullptr;
  void (*call)(void* body, int thread) = nullptr;
  int threads = 1;
  Worker* const* members = nullptr;  ///< thread t + 1 is members[t]
  int caller_core = -1;
  const WorkScope* scope = nullptr;  ///< the caller's
  std::atomic<bool> failed{false};
  std::exception_ptr failure;  ///< the first

  void run_thread(int thread) noexcept;
};

/// Who has nothing to do for spin_time announces it and sleeps on the word it waits for. Announcing, and the other
/// side's look at the announcement, are sequentially consistent on both sides, so that one of the two always sees the
/// other and no wake-up is lost.
class Worker {
 public:
  /// The `number`-th of its set, from 1. Throws std::system_error when no thread can be started.
  Worker(int number, bool oversubscribed);

  /// Calls thread `thread` of the loop here. Only whoever has the worker may.
  void start(Loop& loop, int thread);
  /// Whether the thread has not begun with what start() gave it, and now leaves it to the caller, who need not await().
  bool take_back();
  /// Until that is done.
  void await();
  /// Ends the thread.
  void stop();

 private:
  void work(int number, int creator_core);
  void publish();
  uint32_t await_start_after(uint32_t seen);

  // Written by who starts it, read by the worker.
  alignas(64) std::atomic<uint32_t> started_{0};
  std::atomic<uint32_t> worker_sleeps_{0};
  std::atomic<int> caller_core_{-1};
  std::atomic<uint32_t> begun_{0};  // the last start whose call somebody makes: the worker, or who took it back
  Loop* loop_ = nullptr;
  int thread_ = 0;
  std::atomic<bool> stopping_{false};
  const bool oversubscribed_;
  // Written by the worker, read by who waits for it.
  alignas(64) std::atomic<uint32_t> done_{0};
  std::atomic<uint32_t> waiter_sleeps_{0};
  alignas(64) std::thread handle_;
};

}  // namespace camshaft
