// Runs of which there is one at a time.
#pragma once

#include <mutex>
#include <thread>

#include "base/cancellation.h"
#include "base/steady_condition.h"

namespace camshaft {

class RunTurns {
 public:
  /// Waits until nobody has the turn. Throws Error(cancelled), and Error(invalid_argument) where this thread has it.
  void take(const Cancellation& cancellation);
  void give();

 private:
  std::mutex mutex_;
  SteadyCondition given_;
  bool is_taken_ = false;
  std::thread::id taker_;
};

}  // namespace camshaft
