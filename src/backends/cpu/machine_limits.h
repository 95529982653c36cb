// What this machine can do at most, measured.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Of `threads` threads together.
struct MachineLimits {
  int threads = 1;
  double gflops = 0;                                ///< f32 fused multiply-adds, each counted as two operations
  double byte_tile_gops = 0, bf16_tile_gflops = 0;  ///< of a unit that multiplies tiles (AMX); 0 where there is none
  double gexps = 0;                                 ///< f32 exponentials, 1e9 a second
  double l1_gbs = 0, l2_gbs = 0, l3_gbs = 0, dram_gbs = 0;  ///< reading, 1e9 bytes a second
  int64_t l2_bytes = 0;                                     ///< of one core
  int64_t l3_bytes = 0;                                     ///< shared, as the system reports it
};

/// Takes about half a second and 128 MiB a thread or more. The best of several tries, because a shared machine only
/// ever makes them slower. Throws Error(invalid_argument) for threads < 1.
MachineLimits measure_limits(int threads);

/// Of one core, as the system reports it; 1 MiB where it does not.
int64_t l2_cache_bytes();

}  // namespace camshaft::cpu
