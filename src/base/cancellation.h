// Stopping a long call from another thread or a signal handler.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/error.h"

namespace camshaft {

/// A flag shared by all copies of it. Give one copy to the call, keep another, and call cancel() on that: the call then
/// ends soon with Error(cancelled) and leaves nothing half-done.
class Cancellation {
 public:
  Cancellation() : flag_(std::make_shared<std::atomic<bool>>(false)) {}

  /// Safe from any thread and from a signal handler.
  void cancel() const noexcept { flag_->store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return flag_->load(std::memory_order_relaxed); }
  /// Throws Error(cancelled), "cancelled while <doing>", once cancel() was called. Cheap enough for inner loops.
  void check(const char* doing) const {
    if (cancelled()) throw Error(ErrorCode::cancelled, std::string("cancelled while ") + doing);
  }

 private:
  static_assert(std::atomic<bool>::is_always_lock_free, "cancel() is called from signal handlers");
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace camshaft
