// Stopping a long call from another thread or a signal handler.
#pragma once

#include <memory>

#include "camshaft/camshaft.h"
#include "camshaft/error.hpp"

namespace camshaft {
inline namespace v1 {

/// A flag shared by all copies of it. Give one copy to the call, keep another, and call cancel() on that: the call then
/// ends soon with Error(cancelled) and leaves nothing half-done.
class Cancellation {
 public:
  Cancellation() {
    camshaft_cancellation* made = nullptr;
    detail::check(camshaft_cancellation_create(&made));
    handle_.reset(made, camshaft_cancellation_free);
  }

  /// Safe from any thread and from a signal handler.
  void cancel() const noexcept { camshaft_cancellation_cancel(handle_.get()); }
  bool cancelled() const noexcept { return camshaft_cancellation_is_cancelled(handle_.get()) != 0; }
  /// Throws Error(cancelled), "cancelled while <doing>", once cancel() was called.
  void check(const char* doing) const {
    if (cancelled()) throw Error(ErrorCode::cancelled, std::string("cancelled while ") + doing);
  }

  const camshaft_cancellation* handle() const { return handle_.get(); }

 private:
  std::shared_ptr<camshaft_cancellation> handle_;
};

}  // namespace v1
}  // namespace camshaft
