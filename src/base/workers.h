// The worker threads that the thread pools of a process share.
#pragma once

#include <memory>

namespace camshaft {

class ThreadPool;

/// Up to `limit()` threads, the callers of the loops among them. Sessions of several pools that overlap divide them
/// evenly: each has its caller, who never waits, and workers as long as there are some for it, so that beside the
/// callers at most `limit()` less their number run, and at least none. Any thread may use one.
class Workers {
 public:
  /// Starts no thread yet: pools do, for as many as they may use. Throws like checked_threads().
  explicit Workers(int limit);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// The set that contexts share unless they are given another: one thread for each of available_cores() at the first
  /// call.
  static const std::shared_ptr<Workers>& of_process();

  int limit() const { return limit_; }

  struct State;  // workers_state.h

 private:
  friend class ThreadPool;
  int limit_;
  std::unique_ptr<State> state_;
};

/// Beyond this many, or those of the machine where it has more, a number of threads is a mistake: each has a stack.
inline constexpr int most_threads = 1024;
/// The same number; throws Error(invalid_argument) below 1 and where it is too many.
int checked_threads(int threads);

/// How many forks lie between the process and the first that asked. What began threads remembers it: where it has
/// changed those threads are the parent's.
unsigned fork_generation();

}  // namespace camshaft
