#include "llm/workers.h"

namespace camshaft::llm {

Workers::Workers(size_t count) {
  for (size_t worker = 1; worker < count; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::run(size_t tasks, const Task& task, bool is_worth_threads) {
  if (!is_worth_threads) {
    for (size_t each = 0; each < tasks; ++each) task(each, 0);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    task_ = &task;
    tasks_ = tasks;
    next_ = 0;
    thrown_ = nullptr;
    ++round_;
  }
  begun_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return working_ == 0; });
  task_ = nullptr;  // who wakes now has nothing to do
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
}

void Workers::serve(size_t worker) {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    begun_.wait(lock, [&] { return ending_ || round_ != seen; });
    if (ending_) return;
    seen = round_;
    if (task_ == nullptr) continue;
    ++working_;
    lock.unlock();
    work(worker);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

void Workers::work(size_t worker) {
  for (size_t task = next_.fetch_add(1); task < tasks_; task = next_.fetch_add(1)) {
    try {
      (*task_)(task, worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (thrown_ == nullptr) thrown_ = std::current_exception();
    }
  }
}

}  // namespace camshaft::llm
