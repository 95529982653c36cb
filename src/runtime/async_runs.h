// The thread behind Context::run_async().
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace camshaft {

/// One thread that runs what it is told, one at a time.
class AsyncRuns {
 public:
  using Completion = std::function<void(std::exception_ptr)>;

  /// `run` is called for each start(). Throws Error(out_of_memory) when no thread can be started.
  explicit AsyncRuns(std::function<void()> run);
  /// Waits for the run.
  ~AsyncRuns();

  /// Calls run() on the thread, then `completion` with what it threw. Throws Error(invalid_argument) while another run
  /// is not done.
  void start(Completion completion);
  /// Whether the thread is the parent's of this forked process: nothing may touch the object then, not even its
  /// destructor.
  bool is_of_parent() const;

 private:
  void work();

  const std::function<void()> run_;
  const unsigned generation_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Completion pending_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace camshaft
