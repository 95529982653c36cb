#include "ort_provider/gpu_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cuda/libraries/libraries.h"
#include "base/error.h"

namespace camshaft::ort_provider {

namespace {

/// What is asked of the driver, so that blocks serve again: powers of two, and steps of 2 MiB of large ones.
size_t rounded_up(size_t bytes) {
  constexpr size_t least = 512, step = size_t{2} << 20;
  if (bytes > step) return (bytes + step - 1) / step * step;
  return std::bit_ceil(std::max(bytes, least));
}

}  // namespace

GpuMemory& GpuMemory::of(int ordinal) {
  static auto* const mutex = new std::mutex;
  static auto* const all = new std::map<int, std::unique_ptr<GpuMemory>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<GpuMemory>& one = (*all)[ordinal];
  if (!one) one.reset(new GpuMemory(ordinal));
  return *one;
}

GpuMemory::GpuMemory(int ordinal) : device_(cuda::driver_library().functions, ordinal), stream_(device_) {}

void GpuMemory::copy(void* to, DeviceId of_to, const void* from, DeviceId of_from, size_t bytes) {
  if (bytes == 0) return;
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const std::lock_guard lock(mutex_);
  const cuda::Current current(device_);
  if (of_from.is_host()) {
    stream_.copy_to_device(target, {source, bytes});
  } else if (of_to.is_host()) {
    stream_.copy_to_host({target, bytes}, source);
  } else {
    stream_.copy_from(target, {source, bytes}, of(of_from.ordinal()).device());
  }
  stream_.synchronize();
}

void* GpuBlocks::allocate(size_t bytes) {
  const size_t size = rounded_up(bytes);
  const std::lock_guard lock(mutex_);
  auto found = kept_.lower_bound(size);
  cuda::DeviceBuffer block;
  if (found != kept_.end() && found->first <= 2 * size) {
    block = std::move(found->second);
    kept_.erase(found);
  } else {
    const auto ask = [&] { return cuda::DeviceBuffer(memory_.device(), size, "a tensor of ONNX Runtime"); };
    try {
      block = ask();
    } catch (const Error& e) {
      if (e.code() != ErrorCode::out_of_memory || kept_.empty()) throw;
      kept_.clear();
      block = ask();
    }
  }
  void* const data = block.data();
  taken_.emplace(data, std::move(block));
  return data;
}

void GpuBlocks::free(void* block) {
  const std::lock_guard lock(mutex_);
  const auto it = taken_.find(block);
  if (it == taken_.end()) return;
  const size_t size = it->second.size();
  kept_.emplace(size, std::move(it->second));
  taken_.erase(it);
}

}  // namespace camshaft::ort_provider
