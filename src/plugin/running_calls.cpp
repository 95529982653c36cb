#include "plugin/running_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/steady_condition.h"

namespace camshaft::plugin {

/// Made with the first call, and never freed: its thread lives as long as the process.
struct RunningCall::Watcher {
  using Clock = std::chrono::steady_clock;
  std::mutex mutex;
  SteadyCondition changed;
  std::list<Entry> calls, spare;                         // nodes go to and fro, so that nothing is allocated later
  Clock::time_point wake_at = Clock::time_point::max();  // calls that end in time do not wake the thread

  Watcher() {
    std::thread([this] { watch(); }).detach();
  }

  void watch() {
    std::unique_lock lock(mutex);
    while (true) {
      std::vector<std::string> late;
      wake_at = Clock::time_point::max();
      for (Entry& call : calls) {
        if (call.is_warned) continue;
        if (call.warned_at <= Clock::now()) {
          call.is_warned = true;
          late.push_back(
              fmt::format("{} has been running for {:.3g} s; where it does not ask whether it is cancelled, only "
                          "ending the process "
                          "stops it",
                          *call.who, std::chrono::duration<double>(call.after).count()));
        } else {
          wake_at = std::min(wake_at, call.warned_at);
        }
      }
      if (!late.empty()) {
        lock.unlock();  // whoever hears it may wait for a lock that a call holds
        for (const std::string& line : late) log_warning(line);
        lock.lock();
      } else if (wake_at == Clock::time_point::max()) {
        changed.wait(lock);
      } else {
        changed.wait_until(lock, wake_at);
      }
    }
  }
};

RunningCall::Watcher& RunningCall::watcher() {
  static auto* const one = new Watcher;
  return *one;
}

RunningCall::RunningCall(const std::string& who, std::chrono::milliseconds after) {
  Watcher& all = watcher();
  const std::lock_guard lock(all.mutex);
  if (all.spare.empty()) all.spare.emplace_back();
  all.calls.splice(all.calls.end(), all.spare, all.spare.begin());
  entry_ = std::prev(all.calls.end());
  *entry_ = {&who, std::chrono::steady_clock::now() + after, after, false};
  if (entry_->warned_at < all.wake_at) all.changed.notify_one();
}

RunningCall::~RunningCall() {
  Watcher& all = watcher();
  const std::lock_guard lock(all.mutex);
  all.spare.splice(all.spare.begin(), all.calls, entry_);
}

}  // namespace camshaft::plugin
