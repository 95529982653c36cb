// Memory of GPUs that other processes share with this one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "camshaft/tensor.hpp"

namespace camshaft::server {

/// Whether there is a driver of NVIDIA's with a GPU. It is opened at the first call of these functions.
bool has_cuda_device();

/// An allocation of another process on a GPU (CUDA IPC), in the context that engines on that GPU use: their kernels may
/// read and write it. The other process must keep it while this one has it.
class CudaAllocation {
 public:
  /// `handle`: the bytes of a cudaIpcMemHandle_t. Throws ServerError: unsupported where there is no GPU,
  /// invalid_argument for a number that no GPU has and for a handle that the driver does not take.
  CudaAllocation(int64_t device, std::string_view handle);
  ~CudaAllocation();
  CudaAllocation(const CudaAllocation&) = delete;
  CudaAllocation& operator=(const CudaAllocation&) = delete;

  Device device() const { return {Device::cuda, ordinal_}; }
  /// From the address that the handle stands for to the allocation's end.
  std::span<std::byte> span() const { return {begin_, size_}; }

 private:
  int32_t ordinal_;
  std::byte* begin_ = nullptr;
  size_t size_ = 0;
};

/// Copies between memory of a GPU and the host's, and waits for it. Throws ServerError(internal).
void copy_to_host(std::byte* to, std::span<const std::byte> from, Device device);
void copy_to_device(std::byte* to, Device device, std::span<const std::byte> from);

}  // namespace camshaft::server
