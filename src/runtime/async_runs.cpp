#include "runtime/async_runs.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/workers.h"

namespace camshaft {

AsyncRuns::AsyncRuns(std::function<void()> run) : run_(std::move(run)), generation_(fork_generation()) {
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& e) {
    throw Error(ErrorCode::out_of_memory, fmt::format("no thread could be started for run_async(): {}", e.what()));
  }
}

AsyncRuns::~AsyncRuns() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool AsyncRuns::is_of_parent() const {
  return generation_ != fork_generation();
}

void AsyncRuns::start(Completion completion) {
  {
    const std::lock_guard lock(mutex_);
    if (pending_)
      throw Error(ErrorCode::invalid_argument,
                  "this context is running already; use one context for each run at a time");
    pending_ = std::move(completion);
  }
  wake_.notify_one();
}

void AsyncRuns::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || pending_; });
    if (!pending_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      run_();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    const auto completion = std::exchange(pending_, nullptr);
    lock.unlock();
    completion(failure);
    lock.lock();
  }
}

}  // namespace camshaft
