// Memory of GPUs, as ONNX Runtime asks for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/stream.h"
#include "base/device_id.h"

namespace camshaft::ort_provider {

/// A GPU, whose context is held until the process ends: sessions may be freed then.
class GpuMemory {
 public:
  /// Throws Error(unsupported) where there is none of that number.
  static GpuMemory& of(int ordinal);
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  const cuda::Device& device() const { return device_; }

  /// Copies between this GPU and the host or a GPU, and waits for it. Throws Error.
  void copy(void* to, DeviceId of_to, const void* from, DeviceId of_from, size_t bytes);

 private:
  explicit GpuMemory(int ordinal);

  cuda::Device device_;
  cuda::Stream stream_;
  std::mutex mutex_;
};

/// Blocks of a GPU's memory. What is freed is kept for others of about that size, as asking the driver waits for the
/// GPU; all that is kept goes back when there is no more. Runs that use a block have ended when it is freed.
class GpuBlocks {
 public:
  explicit GpuBlocks(GpuMemory& memory) : memory_(memory) {}

  /// Throws Error(out_of_memory).
  void* allocate(size_t bytes);
  void free(void* block);

 private:
  GpuMemory& memory_;
  std::mutex mutex_;
  std::unordered_map<void*, cuda::DeviceBuffer> taken_;
  std::multimap<size_t, cuda::DeviceBuffer> kept_;  ///< by their size
};

}  // namespace camshaft::ort_provider
