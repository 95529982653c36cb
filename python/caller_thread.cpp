#include "caller_thread.h"

#include <chrono>
#include <thread>

#include "camshaft/error.hpp"
#include "objects.h"

namespace camshaft::python {

void CallerThread::run(const std::function<void()>& work) {
  std::thread worker([&] {
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    thrown_ = thrown;
    is_done_ = true;
    changed_.notify_all();
  });
  for (bool is_done = false; !is_done;) {
    Request* request = nullptr;
    {
      const Unlocked unlocked;
      std::unique_lock lock(mutex_);
      // By the clock of the day: glibc 2.28 cannot wait by the steady one, and a jump of it is no harm here.
      changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(100),
                          [&] { return is_done_ || request_ != nullptr; });
      is_done = is_done_;
      request = request_;
    }
    if (request != nullptr) {
      if (!has_raised_) {
        try {
          (*request->function)();
        } catch (...) {
          set_error(std::current_exception());
          keep_raised();
        }
      }
      const std::lock_guard lock(mutex_);
      request->is_answered = true;
      request_ = nullptr;
      changed_.notify_all();
    }
    if (!has_raised_ && PyErr_CheckSignals() != 0) keep_raised();
  }
  worker.join();
  if (has_raised_) {
    PyErr_Restore(raised_type_, raised_, raised_at_);
    throw PythonError();
  }
  if (thrown_) std::rethrow_exception(thrown_);
}

void CallerThread::call(const std::function<void()>& function) {
  Request request{&function};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return request_ == nullptr; });
  request_ = &request;
  changed_.notify_all();
  changed_.wait(lock, [&] { return request.is_answered; });
  lock.unlock();
  cancellation_.check("calling into Python");
}

void CallerThread::keep_raised() {
  PyErr_Fetch(&raised_type_, &raised_, &raised_at_);
  has_raised_ = true;
  cancellation_.cancel();
}

}  // namespace camshaft::python
