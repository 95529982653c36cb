#include "beside.h"

#include <Python.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "objects.h"

namespace camshaft::python {

namespace {

struct Beside {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::exception_ptr thrown;

  bool wait(std::chrono::milliseconds most) {
    const Unlocked unlocked;
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, most, [&] { return is_done; });
  }
};

}  // namespace

void run_beside(std::function<void()> work, const std::function<void()>& interrupt) {
  const auto state = std::make_shared<Beside>();
  std::thread([state, work = std::move(work)]() mutable {
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    work = nullptr;  // what it holds is free when it is said to be done
    const std::lock_guard lock(state->mutex);
    state->is_done = true;
    state->thrown = thrown;
    state->changed.notify_all();
  }).detach();
  while (!state->wait(std::chrono::milliseconds(100))) {
    if (PyErr_CheckSignals() == 0) continue;
    if (!interrupt) throw PythonError();
    PyObject *type = nullptr, *raised = nullptr, *at = nullptr;
    PyErr_Fetch(&type, &raised, &at);
    interrupt();
    while (!state->wait(std::chrono::milliseconds(1000))) {
    }
    PyErr_Restore(type, raised, at);
    throw PythonError();
  }
  if (state->thrown) std::rethrow_exception(state->thrown);
}

}  // namespace camshaft::python
