#include "compile/device_queue.h"

#include "base/error.h"

namespace camshaft {

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
