// A GPU, and the context that this process shares on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/driver/c_api.h"
#include "backends/cuda/driver/device_features.h"
#include "backends/cuda/driver/forked_child.h"

namespace camshaft::cuda {

/// What a device is.
struct DeviceFacts {
  int ordinal = 0;
  std::string name;         ///< "NVIDIA H200"
  std::string bus_id;       ///< "0000:1B:00.0": the same in all processes
  DeviceFeatures features;  ///< what its compute capability can do
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  double hertz = 0;                    ///< highest clock; 0: unknown
  double memory_bytes_per_second = 0;  ///< that its memory could move at most, by its clock; 0: unknown
  int64_t shared_bytes_per_block = 0;  ///< the most that one block may use
};

/// "GPU 1, NVIDIA H200".
std::string describe(const DeviceFacts& facts);

/// The GPUs of this machine; none when there is no driver or no device. Throws Error when the driver fails.
std::vector<DeviceFacts> list_devices(const api::Driver& driver);

/// The GPU whose context is the calling thread's, as cudaSetDevice makes it; nullopt when it has none.
std::optional<int> current_ordinal(const api::Driver& driver);

/// A GPU in use: holds its primary context, which other libraries in this process (PyTorch, say) use too, so that their
/// pointers and streams are valid here. The driver's table must outlive it. Safe to use from several threads.
class Device {
 public:
  /// Throws Error(unsupported) for an ordinal that does not exist, saying which there are, or a GPU that is too old,
  /// and Error when the context cannot be made.
  Device(const api::Driver& driver, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const api::Driver& driver() const { return driver_; }
  const DeviceFacts& facts() const { return facts_; }
  api::Handle context() const { return context_; }
  /// Bytes that nobody has taken yet.
  int64_t free_bytes() const;

 private:
  const api::Driver& driver_;
  DeviceFacts facts_;
  api::Handle context_ = nullptr;
};

/// Makes a device's context the calling thread's for as long as it lives. Throws Error(unsupported) in a child forked
/// by a process that uses a GPU, and Error where the driver refuses.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const api::Driver& driver_;
};

/// Calls `release(driver)` with the device's context as the calling thread's, for destructors: not at all in a forked
/// child, where what is to be freed is the parent's and CUDA's calls may never return, nor where the context cannot be
/// entered, as when the driver is shut down already.
template <class Release>
void release_on(const Device& device, const Release& release) noexcept {
  const api::Driver& driver = device.driver();
  if (is_forked_child() || driver.cuCtxPushCurrent_v2(device.context()) != api::success) return;
  release(driver);
  api::Handle popped = nullptr;
  driver.cuCtxPopCurrent_v2(&popped);
}

}  // namespace camshaft::cuda
