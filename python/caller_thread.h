// Long calls of the library, during which Python goes on in the thread that made them.
#pragma once

#include <Python.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>

#include "camshaft/cancellation.hpp"

namespace camshaft::python {

/// Runs work on a thread of its own, while the calling thread lets go of Python's lock, looks for signals (Ctrl-C) ten
/// times a second, and calls what the work wants called in Python: there where the program expects its functions to be
/// called. What is raised in Python cancels the work.
class CallerThread {
 public:
  /// Returns when the work is done. Throws PythonError when something was raised in Python, else what the work threw.
  void run(const std::function<void()>& work);

  /// From the work, by any of its threads: the calling thread calls `function` with Python's lock. `function` throws
  /// PythonError or Error to end the work. Throws Error(cancelled) where it did, or something was raised before.
  void call(const std::function<void()>& function);

  /// To be given to the work.
  const Cancellation& cancellation() const { return cancellation_; }

 private:
  struct Request {
    const std::function<void()>* function = nullptr;
    bool is_answered = false;
  };
  /// With Python's lock: what was raised is kept for the end.
  void keep_raised();

  Cancellation cancellation_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Request* request_ = nullptr;
  bool is_done_ = false;
  std::exception_ptr thrown_;  // by the work
  bool has_raised_ = false;
  PyObject *raised_type_ = nullptr, *raised_ = nullptr, *raised_at_ = nullptr;
};

}  // namespace camshaft::python
