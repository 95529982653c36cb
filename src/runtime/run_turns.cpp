#include "runtime/run_turns.h"

#include <chrono>

#include "base/error.h"

namespace camshaft {

namespace {

// How often who waits looks whether it was cancelled.
constexpr auto look_up_of_turns = std::chrono::milliseconds(20);

}  // namespace

void RunTurns::take(const Cancellation& cancellation) {
  std::unique_lock lock(mutex_);
  if (is_taken_ && taker_ == std::this_thread::get_id())
    throw Error(ErrorCode::invalid_argument,
                "an engine whose weights are streamed was asked for another run, or another budget, within one of its "
                "runs: these take turns");
  while (is_taken_) {
    cancellation.check("waiting for another run of an engine whose weights are streamed");
    given_.wait_until(lock, std::chrono::steady_clock::now() + look_up_of_turns);
  }
  is_taken_ = true;
  taker_ = std::this_thread::get_id();
}

void RunTurns::give() {
  {
    const std::lock_guard lock(mutex_);
    is_taken_ = false;
    taker_ = {};
  }
  given_.notify_all();
}

}  // namespace camshaft
