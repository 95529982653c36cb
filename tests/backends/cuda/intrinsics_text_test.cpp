// Every instruction of device/intrinsics.cuh, through the compiler that it is made for.
#include <gtest/gtest.h>

#include "backends/cuda/driver/compiler.h"
#include "device_texts.h"

namespace camshaft::cuda::intrinsics_text_test {
namespace {

constexpr const char* each_instruction = R"(
extern "C" __global__ void instructions(u32* data, const f32* real) {
  DYNAMIC_SHARED(shared);
  u32* words = reinterpret_cast<u32*>(shared);
  copy_async_16(words + 4 * threadIdx.x, data + 4 * threadIdx.x, 8);
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  u32 a[4], b[4];
  load_matrix_x4(a, words + 4 * threadIdx.x);
  load_matrix_x4_transposed(b, words + 4 * threadIdx.x);
  f32 d[4] = {};
  const u32 right[2] = {b[0], b[1]};
  mma_f16(d, a, right);
#if __CUDA_ARCH__ >= 800
  mma_bf16(d, a, right);
  a[1] = round_to_tf32(a[1]);
  mma_tf32(d, a, right);
  a[0] += f32_to_bf16_pair(d[0], d[1]);
  i32 sums[4] = {};
  mma_bytes<true>(sums, a, right);
  mma_bytes<false>(sums, a, right);
  d[0] += f32(sums[0] + sums[1] + sums[2] + sums[3]);
#endif
#if __CUDA_ARCH__ >= 890
  mma_float8<true>(d, a, right);
  mma_float8<false>(d, a, right);
  a[2] += f32_to_float8_pair<true>(d[0], d[1]) + f32_to_float8_pair<false>(d[0], d[1]);
  a[3] += float8_pair_to_f16<true>(u16(a[2])) + float8_pair_to_f16<false>(u16(a[2]));
#endif
#if __CUDA_ARCH__ >= 900
  __shared__ u64 barrier;
  if (threadIdx.x == 0) phase_barrier_begin(&barrier, 64);
  show_phase_barriers();
  phase_barrier_arrive(&barrier);
  phase_barrier_arrive_behind_copies(&barrier);
  phase_barrier_expect(&barrier, 0);
  phase_barrier_wait(&barrier, 0);
  tensor_copy(words, data, &barrier, 1, 2);
  tensor_copy_to_all<1>(words, data, &barrier, 1, 2, 3, 4, 5);
  tensor_copy_to_all<4>(words, data, &barrier, 1, 2, 3, 4, 5);
  phase_barrier_arrive_at<1>(&barrier, 0);
  phase_barrier_arrive_at<4>(&barrier, threadIdx.x % 4);
#endif
  const f32 x = exp2_approximate(d[0]) + reciprocal_approximate(d[1]) + f16_to_f32(f32_to_f16(d[2])) + real[0];
  store_shared_16(shared_address(words + 4 * threadIdx.x), 5);
  const u32 bytes = f32_to_bytes<true>(x, d[0], d[1], d[2], 3) ^ f32_to_bytes<false>(x, d[0], d[1], d[2], 0);
  u32 block[4] = {__float_as_uint(x), f32_to_f16_pair(d[3], x), a[0] ^ a[3], b[3] ^ bytes};
  store(data + 4 * threadIdx.x, block);
}
)";

TEST(IntrinsicsText, CompilesForEveryArchitecture) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const std::string text = std::string(device::numbers_h) + std::string(device::intrinsics_cuh) + each_instruction;
  for (const int capability : {75, 80, 89, 90, 100})
    EXPECT_FALSE(compiler.compile({"instructions", text, architecture(capability)}).empty());
}

}  // namespace
}  // namespace camshaft::cuda::intrinsics_text_test
