// Threads that share out what comes in numbers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace camshaft::llm {

/// The calling thread is one of them. Without work the others sleep.
class Workers {
 public:
  /// Called with a task's number and that of the thread.
  using Task = std::function<void(size_t task, size_t worker)>;

  explicit Workers(size_t count);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  size_t count() const { return threads_.size() + 1; }
  /// Runs each of `tasks` once, and returns when all are done; those that are not worth threads by the calling one
  /// alone, which is worker 0. Throws what the first one threw.
  void run(size_t tasks, const Task& task, bool is_worth_threads = true);

 private:
  void serve(size_t worker);
  void work(size_t worker);

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const Task* task_ = nullptr;
  size_t tasks_ = 0, working_ = 0;
  uint64_t round_ = 0;
  bool ending_ = false;
  std::exception_ptr thrown_;
  std::atomic<size_t> next_{0};
  std::vector<std::thread> threads_;
};

}  // namespace camshaft::llm
