// The emulated GPU itself: what kernels see of CUDA, and that their mistakes are found. Skipped on any other device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/module.h"
#include "base/error.h"
#include "base/random.h"
#include "device_texts.h"
#include "test_random.h"

namespace camshaft::cuda::emulator_test {
namespace {

class Emulator : public testing::Test {
 protected:
  void SetUp() override {
    if (!driver_library().problem.empty()) GTEST_SKIP() << driver_library().problem;
    const auto devices = list_devices(driver_library().functions);
    if (devices.empty() || devices[0].name != "emulated GPU") GTEST_SKIP() << "the GPU is a real one";
    device_ = std::make_unique<Device>(driver_library().functions, 0);
  }

  Module compile(const std::string& text) const {
    return Module(*device_,
                  Compiler(nvrtc_library())
                      .compile({"test", std::string(device::numbers_h) + std::string(device::intrinsics_cuh) + text,
                                architecture(device_->facts().features.capability)}));
  }

  /// Runs the kernel "test" of a text on `data`, which it may change, with its size as the second argument.
  template <class T>
  void run(const std::string& text, std::vector<T>& data, LaunchSize size) const {
    size.may_start_early = text.find("take_turn()") != std::string::npos;
    const Module module = compile(text);
    const Function function = module.function("test", size.shared_bytes);
    const DeviceBuffer buffer(*device_, data.size() * sizeof(T), "a test");
    const Stream stream(*device_);
    stream.copy_to_device(buffer.data(), std::as_bytes(std::span(data)));
    std::byte* pointer = buffer.data();
    int count = static_cast<int>(data.size());
    void* const arguments[] = {&pointer, &count};
    function.launch(stream, size, arguments);
    stream.copy_to_host(std::as_writable_bytes(std::span(data)), buffer.data());
    stream.synchronize();
  }

  std::string problem_of(const std::string& text, const LaunchSize& size) const {
    std::vector<float> data(100);
    try {
      run(text, data, size);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  }

  std::unique_ptr<Device> device_;
};

TEST_F(Emulator, TellsWhatParametersKernelsHave) {
  const Module module = compile(
      "struct Three { f32 a, b, c; };\n"
      "extern \"C\" __global__ void some(f32* to, i8 n, const __grid_constant__ Three x) { *to = f32(n) + x.c; }\n"
      "extern \"C\" __global__ void none() {}\n");
  EXPECT_EQ(module.function("some").parameter_bytes(), (std::vector<size_t>{8, 1, 12}));
  EXPECT_EQ(module.function("none").parameter_bytes(), std::vector<size_t>());
}

TEST_F(Emulator, ThreadsOfAllBlocks) {
  std::vector<int> data(2 * 3 * 5 * 7);
  run(R"(
extern "C" __global__ void test(int* data, int) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const int thread = threadIdx.y * blockDim.x + threadIdx.x;
  data[block * blockDim.x * blockDim.y + thread] = block * 1000 + thread;
})",
      data, {.blocks = 2, .blocks_y = 3, .threads = 5, .threads_y = 7});
  for (int i = 0; i < 210; ++i) EXPECT_EQ(data[static_cast<size_t>(i)], i / 35 * 1000 + i % 35);
}

TEST_F(Emulator, BlocksSynchronizeThroughSharedMemory) {
  std::vector<int> data(1000);
  std::iota(data.begin(), data.end(), 0);
  run(R"(
extern "C" __global__ void __launch_bounds__(1000) test(int* data, int count) {
  __shared__ int tile[1000];
  DYNAMIC_SHARED(bytes);
  int* other = reinterpret_cast<int*>(bytes);
  const int i = threadIdx.x;
  for (int round = 0; round < 3; ++round) {
    tile[i] = data[i];
    __syncthreads();
    other[i] = tile[(i + 1) % count];
    __syncthreads();
    data[i] = other[count - 1 - i];
    __syncthreads();
  }
  const int even = __syncthreads_count(i % 2 == 0);
  if (i == 0) data[0] += 10000 * even;
})",
      data, {.threads = 1000, .shared_bytes = 4000});
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  for (int round = 0; round < 3; ++round) {
    std::rotate(expected.begin(), expected.begin() + 1, expected.end());
    std::reverse(expected.begin(), expected.end());
  }
  expected[0] += 10000 * 500;
  EXPECT_EQ(data, expected);
}

TEST_F(Emulator, LanesExchangeValues) {
  std::vector<float> data(64);
  std::iota(data.begin(), data.end(), 1.0F);
  run(R"(
extern "C" __global__ void test(float* data, int) {
  float sum = data[threadIdx.x], most = sum;
  for (int step = 16; step > 0; step >>= 1) {
    sum += __shfl_xor_sync(0xffffffff, sum, step);
    most = fmaxf(most, __shfl_down_sync(0xffffffff, most, step));
  }
  const double first = __shfl_sync(0xffffffff, double(most), 0);
  const unsigned odd = __ballot_sync(0xffffffff, threadIdx.x & 1);
  if (odd != 0xaaaaaaaau) __trap();
  data[threadIdx.x] = sum + 1000 * first + __shfl_up_sync(0xffffffff, data[threadIdx.x], 1) * 1e5f;
})",
      data, {.threads = 64});
  for (int i = 0; i < 64; ++i) {
    const int sum = i < 32 ? 528 : 528 + 1024, most = i < 32 ? 32 : 64, before = i % 32 == 0 ? i + 1 : i;
    EXPECT_EQ(data[static_cast<size_t>(i)], static_cast<float>(sum + 1000 * most) + static_cast<float>(before) * 1e5F);
  }
}

TEST_F(Emulator, BlocksAddToOnePlace) {
  std::vector<unsigned> data(2);
  run(R"(
extern "C" __global__ void test(unsigned* data, int) {
  atomicAdd(data, threadIdx.x);
  __threadfence();
  // The last block to arrive sees what all have added.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(data + 1, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last && threadIdx.x == 0) data[1] = data[0];
})",
      data, {.blocks = 50, .threads = 96});
  EXPECT_EQ(data, (std::vector<unsigned>{50 * 48 * 95, 50 * 48 * 95}));
}

// Through copy_async_16 and load_matrix_x4 into mma, as kernels do it, against a plain product.
TEST_F(Emulator, MatrixInstructions) {
  Random random = test_random();
  struct Kind {
    const char* name;
    int k, bytes;
  };
  for (const Kind& kind : {Kind{"mma_f16", 16, 2}, Kind{"mma_bf16", 16, 2}, Kind{"mma_tf32", 8, 4}}) {
    const DeviceFeatures& features = device_->facts().features;
    if (!(kind.bytes == 4 ? features.tf32_products : features.bf16_products) && std::string(kind.name) != "mma_f16")
      continue;
    // Small whole numbers are exact in all of them. a is 16 × k and b 8 × k (its columns are rows), d 16 × 8.
    std::vector<float> a(static_cast<size_t>(16 * kind.k)), b(static_cast<size_t>(8 * kind.k));
    for (float& x : a) x = static_cast<float>(static_cast<int>(random.next() % 17) - 8);
    for (float& x : b) x = static_cast<float>(static_cast<int>(random.next() % 17) - 8);
    std::vector<float> data = a;
    data.insert(data.end(), b.begin(), b.end());
    data.resize(data.size() + 16 * 8 + 16);
    const std::string to_bits = kind.bytes == 4                       ? "__float_as_uint(x)"
                                : std::string(kind.name) == "mma_f16" ? "f32_to_f16(x)"
                                                                      : "u16(__float_as_uint(x) >> 16)";
    run("typedef " + std::string(kind.bytes == 4 ? "u32" : "u16") + " Element;\n" +
            "constexpr int k = " + std::to_string(kind.k) + ";\n__device__ Element bits(float x) { return " + to_bits +
            "; }\n__device__ void mma(f32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) { " + kind.name +
            "(d, a, b); }\n" + R"(
extern "C" __global__ void test(float* data, int) {
  __shared__ __align__(16) Element rows[24 * k];
  __shared__ __align__(16) Element copied[24 * k];
  for (int i = threadIdx.x; i < 24 * k; i += 32) rows[i] = bits(data[i]);
  __syncwarp();
  constexpr int chunks = 24 * k * sizeof(Element) / 16;
  for (int i = threadIdx.x; i < chunks; i += 32)
    copy_async_16(reinterpret_cast<char*>(copied) + 16 * i, reinterpret_cast<char*>(rows) + 16 * i, 16);
  copy_async_commit();
  copy_async_wait<0>();
  __syncwarp();
  u32 a[4], b[4];
  const int lane = threadIdx.x, half = k / 2;
  load_matrix_x4(a, copied + (lane % 16) * k + (lane / 16) * half);
  load_matrix_x4(b, copied + (16 + lane % 8) * k + (lane / 8 % 2) * half);
  f32 d[4] = {};
  const u32 right[2] = {b[0], b[1]};
  mma(d, a, right);
  for (int j = 0; j < 4; ++j) data[24 * k + (lane / 4 + 8 * (j / 2)) * 8 + lane % 4 * 2 + j % 2] = d[j];
})",
        data, {.threads = 32});
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        float sum = 0;
        for (int at = 0; at < kind.k; ++at)
          sum += a[static_cast<size_t>(i * kind.k + at)] * b[static_cast<size_t>(j * kind.k + at)];
        EXPECT_EQ(data[static_cast<size_t>(24 * kind.k + i * 8 + j)], sum) << kind.name << " " << i << ", " << j;
      }
  }
}

TEST_F(Emulator, TransposedMatrices) {
  std::vector<unsigned> data(32 * 4);
  run(R"(
extern "C" __global__ void test(u32* data, int) {
  __shared__ __align__(16) u16 rows[32 * 8];
  for (int i = threadIdx.x; i < 256; i += 32) rows[i] = u16(i);
  __syncwarp();
  u32 r[4];
  load_matrix_x4_transposed(r, rows + threadIdx.x * 8);
  store(data + 4 * threadIdx.x, r);
})",
      data, {.threads = 32});
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned matrix = 0; matrix < 4; ++matrix) {
      const unsigned i = lane % 4 * 2, j = lane / 4;
      EXPECT_EQ(data[4 * lane + matrix], (64 * matrix + 8 * i + j) | (64 * matrix + 8 * (i + 1) + j) << 16);
    }
}

TEST_F(Emulator, HalvesRoundToNearestEven) {
  std::vector<float> data = {0.0F,     -0.0F,    1.0F,       2049.0F,      2051.0F,      65504.0F,  65519.9F, 65520.0F,
                             0x1p-24F, 0x1p-25F, 0x1.8p-24F, 0x1.ff8p-15F, 0x1.ffcp-15F, -INFINITY, NAN,      0.1F};
  std::vector<float> expected = {0.0F,     -0.0F, 1.0F,     2048.0F,      2052.0F,  65504.0F,  65504.0F, INFINITY,
                                 0x1p-24F, 0.0F,  0x1p-23F, 0x1.ff8p-15F, 0x1p-14F, -INFINITY, NAN,      0x1.998p-4F};
  run("extern \"C\" __global__ void test(f32* x, int) { x[threadIdx.x] = f16_to_f32(f32_to_f16(x[threadIdx.x])); }",
      data, {.threads = 16});
  for (size_t i = 0; i < data.size(); ++i) {
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(data[i]));
    else
      EXPECT_EQ(std::memcmp(&data[i], &expected[i], 4), 0) << data[i] << " for " << expected[i];
  }
}

TEST_F(Emulator, MistakesAreFound) {
  const auto has = [&](const char* body, const LaunchSize& size, const char* words) {
    const std::string text =
        std::string("extern \"C\" __global__ void test(float* data, int count) {\n") + body + "\n}";
    const std::string problem = problem_of(text, size);
    EXPECT_NE(problem.find(words), std::string::npos) << "got: " << problem << "\nfor: " << body;
  };
  has("data[count] = 1;", {}, "writes to 0 bytes after an allocation of 400 bytes");
  has("data[count + 1000] = data[0];", {}, "bytes after an allocation of 400 bytes");
  has("data[-1] = 1;", {}, "writes to");
  has("*(float*)nullptr = 1;", {}, "null");
  has("if (threadIdx.x < 40) __syncthreads();", {.threads = 64}, "40 wait in __syncthreads, 24 have finished");
  has("if (threadIdx.x != 5) __syncwarp();", {.threads = 32}, "31 wait in __syncwarp, 1 have finished");
  has("if (threadIdx.x < 32) __syncwarp(); else __syncthreads();", {.threads = 64}, "wait in __syncthreads");
  has("if (threadIdx.x < 16) __syncwarp(); else __ballot_sync(~0u, 1);", {.threads = 32},
      "where others of its warp call");
  has("float x[4]; load(data + 1, x); data[0] = x[2];", {}, "not aligned");
  has("data[0] = reinterpret_cast<float4*>(data + 2)->y;", {}, "not aligned");
  has("DYNAMIC_SHARED(s); data[0] = s[64];", {.shared_bytes = 64}, "shared memory 0 bytes after its end");
  has("data[0] = 7 / (count - 100);", {}, "division");
  has("volatile char large[1 << 20]; large[0] = 1; data[0] = large[5];", {}, "more local memory");
  has("__trap();", {}, "__trap()");
  has("", {.threads = 1025}, "CUDA_ERROR_INVALID_VALUE");
  has("", {.threads = 32, .shared_bytes = 228 * 1024}, "CUDA_ERROR_INVALID_VALUE");
  EXPECT_NE(problem_of("extern \"C\" __global__ void __launch_bounds__(64, 2) test(float*, int) {}", {.threads = 65})
                .find("OUT_OF_RESOURCES"),
            std::string::npos);
  EXPECT_EQ(problem_of("extern \"C\" __global__ void test(float* data, int) { data[99] = 1; }", {}), "");
}

TEST_F(Emulator, KernelsThatMayStartEarlyHaveToWait) {
  if (!device_->facts().features.overlapping_launches) GTEST_SKIP() << "kernels start one after the other here";
  const std::string begin = "extern \"C\" __global__ void test(float* data, int) { if (blockIdx.x == ";
  const std::string end = ") take_turn(); data[blockIdx.x] = 1; }";
  EXPECT_EQ(problem_of(begin + "blockIdx.x" + end, {.blocks = 2}), "");
  EXPECT_NE(problem_of(begin + "0" + end, {.blocks = 2}).find("did not wait"), std::string::npos);
}

// A barrier that is missing shows in one of two launches, whichever way values go.
TEST_F(Emulator, ThreadsRunInBothOrders) {
  for (const char* from : {"(threadIdx.x + 1) % 64", "(threadIdx.x + 63) % 64"}) {
    int wrong = 0;
    for (int launch = 0; launch < 2; ++launch) {
      std::vector<int> data(64);
      run(std::string("extern \"C\" __global__ void test(int* data, int) {\n"
                      "  __shared__ int x[64];\n  x[threadIdx.x] = -1;\n  __syncthreads();\n"
                      "  x[threadIdx.x] = threadIdx.x;\n  data[threadIdx.x] = x[") +
              from + "];\n}",
          data, {.threads = 64});
      wrong += static_cast<int>(std::count(data.begin(), data.end(), -1));
    }
    EXPECT_GE(wrong, 63);
  }
}

TEST_F(Emulator, WhatIsNoImageIsRefused) {
  const std::vector<std::byte> zeros(1000);
  EXPECT_THROW(Module(*device_, zeros), Error);
  Cubin cubin = Compiler(nvrtc_library())
                    .compile({"test", "extern \"C\" __global__ void test(int* x) { *x = 1; }",
                              architecture(device_->facts().features.capability)});
  EXPECT_NO_THROW(Module(*device_, cubin));
  EXPECT_THROW(Module(*device_, cubin).function("other"), Error);
  cubin[cubin.size() / 2] ^= std::byte{1};
  EXPECT_THROW(Module(*device_, cubin), Error);
}

}  // namespace
}  // namespace camshaft::cuda::emulator_test
