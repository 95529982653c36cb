// What GPUs of a compute capability can do.
#pragma once

#include <cstdint>

namespace camshaft::cuda {

/// NVIDIA's architectures, in order of their age. Cost models ask for it; what a kernel needs is asked by its name.
enum class Generation : uint8_t { older, turing, ampere, ada, hopper, blackwell };

/// Multiply-adds of one multiprocessor in a clock cycle; 0: unknown, or not possible.
struct ArithmeticRates {
  int f32 = 0, half = 0, tf32 = 0;
};

/// Facts that follow from the compute capability alone, by NVIDIA's manuals (CUDA C++ Programming Guide, Compute
/// Capabilities; PTX ISA). What is true of one device only is in DeviceFacts. Kernels' texts have the same from
/// __CUDA_ARCH__.
struct DeviceFeatures {
  int capability = 0;  ///< 90 for compute capability 9.0; for names of architectures and for messages
  Generation generation = Generation::older;
  bool is_supported = false;  ///< kernels are written for it: tensor cores of f16, at least
  /// Instructions that no later architecture has: kernels are compiled for "sm_90a", not for "sm_90".
  bool own_instructions = false;
  /// Copies from global to shared memory that go on beside the computation: by each thread (cp.async), and of boxes of
  /// a tensor by one for all (TMA).
  bool async_copies = false, tensor_copies = false;
  /// Blocks that see each other's shared memory, and kernels that start while the one before them ends (programmatic
  /// dependent launch).
  bool clusters = false, overlapping_launches = false;
  /// What tensor cores multiply for a warp (mma), beside f16; all with sums of 32 bits. bf16: conversions too. int8 in
  /// products of 32 along k.
  bool bf16_products = false, tf32_products = false, int8_products = false, fp8_products = false;
  int half_product_k = 0;  ///< along k of an mma of f16: m16n8k8 or m16n8k16
  /// Tensor cores that read operands from shared memory, for four warps at a time (wgmma), and those that also keep
  /// sums in a memory of their own (tcgen05). Each in one family of architectures alone.
  bool warpgroup_products = false, tensor_memory_products = false;
  int64_t shared_bytes_per_block = 0;  ///< the most that one block may ask for
  ArithmeticRates rates;
};

/// Of a capability that is in no table, those of the newest one before it, but for rates, which are unknown then.
DeviceFeatures features_of(int capability);

/// Oldest compute capability that kernels are written for.
constexpr int oldest_capability = 75;

}  // namespace camshaft::cuda
