// A thread for calls of foreign code that may never return.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "base/cancellation.h"

namespace camshaft {

/// Runs calls one after the other on a thread of its own. One that does not return in time is given up: the thread is
/// left behind with it, until the end of the process, and the next call gets a new one. So a call must own all that it
/// uses. Any other thread has ended when this is gone.
class BoundedThread {
 public:
  BoundedThread() = default;
  ~BoundedThread();
  BoundedThread(const BoundedThread&) = delete;
  BoundedThread& operator=(const BoundedThread&) = delete;

  /// Whether it has returned within `limit`; what it throws is thrown here. `call` gets a cancellation, which is
  /// cancelled with `cancellation` and at the limit; beyond either it has `grace` to come to its end. Throws
  /// Error(cancelled) where it was cancelled and does not.
  bool run(const std::function<void(const Cancellation&)>& call, std::chrono::milliseconds limit,
           const Cancellation& cancellation);

  static constexpr std::chrono::milliseconds grace{1000};

 private:
  struct State;
  static void work(const std::shared_ptr<State>& state);
  std::shared_ptr<State> state_;  // of the thread that waits for calls; null: there is none
  std::thread thread_;            // which that is
};

}  // namespace camshaft
