#include "base/bounded_thread.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/steady_condition.h"
#include "base/work_scope.h"

namespace camshaft {

struct BoundedThread::State {
  std::mutex mutex;
  SteadyCondition changed;
  std::function<void()> call;  // empty: there is nothing to do
  bool ends = false;
  std::exception_ptr failure;
};

BoundedThread::~BoundedThread() {
  if (!state_) return;
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
  }
  thread_.join();  // one that is left behind is no longer here
}

void BoundedThread::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->call || state->ends; });
    if (!state->call) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      state->call();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    state->call = nullptr;
    state->failure = std::move(failure);
    state->changed.notify_all();
  }
}

bool BoundedThread::run(const std::function<void(const Cancellation&)>& call, std::chrono::milliseconds limit,
                        const Cancellation& cancellation) {
  using Clock = std::chrono::steady_clock;
  constexpr auto between_looks = std::chrono::milliseconds(50);
  const Cancellation own;
  if (!state_) {
    auto state = std::make_shared<State>();
    std::string failure;
    try {
      const BlockedSignals signals;
      thread_ = std::thread([state] { work(state); });
    } catch (const std::system_error& error) {
      failure = error.what();
    }
    if (!failure.empty()) throw Error(ErrorCode::out_of_memory, "no thread could be started: " + failure);
    state_ = std::move(state);
  }
  const std::shared_ptr<State> state = state_;
  std::unique_lock lock(state->mutex);
  state->call = [call, own, budget = current_budget()] {
    const WorkScope scope(own, budget);
    call(own);
  };
  state->changed.notify_all();
  const auto is_done = [&] { return !state->call; };
  const auto wait_until = [&](Clock::time_point end) {
    while (!is_done() && Clock::now() < end && (own.cancelled() || !cancellation.cancelled()))
      state->changed.wait_until(lock, std::min(end, Clock::now() + between_looks));
  };
  wait_until(Clock::now() + limit);
  const bool is_late = !is_done();
  if (is_late) {
    own.cancel();
    wait_until(Clock::now() + grace);
    if (!is_done()) {
      state_ = nullptr;
      thread_.detach();
      state->ends = true;  // should it return one day
      cancellation.check("waiting for a call that does not return");
      return false;
    }
  }
  const std::exception_ptr failure = std::exchange(state->failure, nullptr);
  if (is_late) {
    cancellation.check("waiting for a call that ended late");
    return false;
  }
  if (failure) std::rethrow_exception(failure);
  return true;
}

}  // namespace camshaft
