#include "backends/cpu/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "backends/cpu/kernels/gemm/matrix_tiles.h"
#include "backends/cpu/kernels/limits.h"
#include "base/aligned_buffer.h"
#include "base/cache_sizes.h"
#include "base/seconds_since.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

namespace {

using Clock = std::chrono::steady_clock;

// Of a loop that returns how many operations it was.
template <class Spin>
double best_gflops(ThreadPool& pool, const Spin& spin) {
  double best = 0;
  std::vector<double> flops(static_cast<size_t>(pool.size()));
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto start = Clock::now();
    pool.run([&](int thread) { flops[static_cast<size_t>(thread)] = spin(); });
    best = std::max(best, flops[0] * pool.size() / seconds_since(start) * 1e-9);
  }
  return best;
}

// 1e9 floats a second of `loop`, which every thread runs over `bytes` of its own, over and over, until it has read
// `total` of them.
double best_rate(ThreadPool& pool, int64_t bytes, int64_t total, float (*loop)(const float*, int64_t)) {
  const int64_t floats = std::max<int64_t>(bytes / 4 / 256, 1) * 256;
  const int64_t passes = std::max<int64_t>(1, total / (floats * 4));
  std::vector<AlignedBuffer> buffers(static_cast<size_t>(pool.size()));
  std::vector<float> sums(buffers.size());
  pool.run([&](int thread) {  // touched by the thread that reads it
    AlignedBuffer& buffer = buffers[static_cast<size_t>(thread)];
    buffer = AlignedBuffer(static_cast<size_t>(floats) * 4, "measuring the memory's speed");
    std::fill_n(reinterpret_cast<float*>(buffer.data()), floats, 1.0f);
  });
  double best = 0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const auto start = Clock::now();
    pool.run([&](int thread) {
      const auto t = static_cast<size_t>(thread);
      for (int64_t pass = 0; pass < passes; ++pass)
        sums[t] += loop(reinterpret_cast<const float*>(buffers[t].data()), floats);
    });
    best = std::max(best, static_cast<double>(floats * passes) * pool.size() / seconds_since(start) * 1e-9);
  }
  return best;
}

double best_bandwidth(ThreadPool& pool, int64_t bytes) {
  return 4 * best_rate(pool, bytes, int64_t{64} << 20, sum_floats);
}

}  // namespace

int64_t l2_cache_bytes() {
  return level2_cache_bytes() > 0 ? level2_cache_bytes() : 1 << 20;
}

MachineLimits measure_limits(int threads) {
  ThreadPool pool(threads);
  MachineLimits limits;
  limits.threads = threads;
  limits.l2_bytes = l2_cache_bytes();
  limits.l3_bytes = level3_cache_bytes() > 0 ? level3_cache_bytes() : 16 << 20;
  constexpr int64_t rounds = 2'000'000, tile_rounds = 400'000;  // some ten milliseconds
  limits.gflops = best_gflops(pool, [] { return spin_fma(rounds); });
  limits.byte_tile_gops = best_gflops(pool, [] { return spin_tiles(TileProduct::u8_s8, tile_rounds); });
  limits.bf16_tile_gflops = best_gflops(pool, [] { return spin_tiles(TileProduct::bf16_pairs, tile_rounds); });
  constexpr int64_t in_l1 = 16 << 10;
  limits.gexps = best_rate(pool, in_l1, int64_t{64} << 20, sum_exponentials);
  limits.l1_gbs = best_bandwidth(pool, in_l1);
  limits.l2_gbs = best_bandwidth(pool, limits.l2_bytes / 2);
  // Little of it is in L2; not much more than that, for neighbours on a shared machine use the L3 too.
  limits.l3_gbs = best_bandwidth(pool, std::min(4 * limits.l2_bytes, limits.l3_bytes / 2));
  limits.dram_gbs = best_bandwidth(pool, std::max<int64_t>(int64_t{128} << 20, 4 * limits.l3_bytes / threads));
  return limits;
}

}  // namespace camshaft::cpu
