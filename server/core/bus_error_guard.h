// Memory whose file others may cut short.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

namespace camshaft::server {

/// While it lives, touching a page of the range that is not in the file any more reads zeros and sets broken(), in
/// place of ending the process: the signal's handler puts an empty page there. What is not in a guarded range goes to
/// the handler of before. At most 1024 at a time: throws ServerError(resource_exhausted).
class BusErrorGuard {
 public:
  BusErrorGuard(std::byte* begin, size_t size);
  ~BusErrorGuard();
  BusErrorGuard(const BusErrorGuard&) = delete;
  BusErrorGuard& operator=(const BusErrorGuard&) = delete;

  const std::shared_ptr<std::atomic<bool>>& broken() const { return broken_; }

 private:
  size_t place_ = 0;
  std::shared_ptr<std::atomic<bool>> broken_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace camshaft::server
