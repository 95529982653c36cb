// Threads for calls that take long: models that are loaded.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace camshaft::server {

class Workers {
 public:
  explicit Workers(int threads);
  /// Runs what is still in the queue first.
  ~Workers();
  /// `task` must not throw.
  void run(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace camshaft::server
