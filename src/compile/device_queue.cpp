#include "compile/device_queue.h"

#include "base/error.h"

namespace camshaft {

namespace {

[[noreturn]] void refuse_blocks() {
  throw Error(ErrorCode::unsupported, "this device has no memory that several addresses share");
}

}  // namespace

std::shared_ptr<std::byte> DeviceQueue::allocate_blocks(std::span<const int32_t>, size_t, std::string_view) {
  refuse_blocks();
}

size_t DeviceQueue::block_granularity() const {
  refuse_blocks();
}

std::shared_ptr<std::byte> DeviceQueue::allocate_pinned(size_t, std::string_view) {
  refuse_blocks();
}

void DeviceQueue::put_into_recording(const std::function<void()>& put) {
  start_recording();
  try {
    put();
  } catch (...) {
    try {
      finish_recording();
    } catch (const Error&) {  // the first error says why
    }
    throw;
  }
}

}  // namespace camshaft
