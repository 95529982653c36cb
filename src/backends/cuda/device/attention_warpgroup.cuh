// The products of attention by a warpgroup (wgmma), 64 queries at once: keys and values are read from shared memory once
// for all of its warps. Heads of 64 or 128 elements, compute capability 9.0. As WarpProducts otherwise.

/// Panels of 64 elements, each row of which is 128 bytes, swizzled as matrix_descriptor() has it.
struct SwizzledRows {
  template <int padded>
  static constexpr int pitch = 64;
  template <int rows, int padded>
  static constexpr int elements = rows * padded;
  template <int rows, int padded>
  static __device__ __forceinline__ int at(int r, int c) {
    return c / 64 * (rows * 64) + r * 64 + ((c % 64 / 8) ^ (r & 7)) * 8 + c % 8;
  }
};

template <int warps_q, int warps_k, int warp_keys>
struct WarpgroupProducts {
  typedef SwizzledRows Layout;
  static_assert(warps_q == 4 && warps_k == 1 && head_padded % 64 == 0 && value_padded % 64 == 0);
  static constexpr u32 panel_bytes = warp_keys * 128;

  u64 queries, values;

  /// What this thread has copied may be multiplied after the next barrier.
  static __device__ __forceinline__ void show() { show_to_matrix_units(); }
  __device__ __forceinline__ void take_queries(const Element* tile, bool) {
    queries = matrix_descriptor(shared_address(tile));
  }
  __device__ __forceinline__ void multiply_keys(f32 (&scores)[warp_keys / 8][4], const Element* tile) const {
    const u64 keys = matrix_descriptor(shared_address(tile));
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < head_padded / 16; ++d) {  // addresses count in 16 bytes
      const int step = d % 4 * 2, panel = d / 4;
      multiply_group(scores, queries + panel * (64 * 128 / 16) + step, keys + panel * (panel_bytes / 16) + step, d > 0);
    }
    wgmma_commit();
    wgmma_wait<0>();
    keep_all(scores);
  }
  __device__ __forceinline__ void begin_values(const Element* tile) {
    values = matrix_descriptor(shared_address(tile), panel_bytes);
  }
  __device__ __forceinline__ void add_values(f32 (&sums)[value_padded / 8][4], int n, const u32 (&left)[4]) const {
    wgmma_fence();  // registers of others' making
    multiply_held(sums, left, values + n * (16 * 128 / 16), true);
  }
  static __device__ __forceinline__ void finish_values(f32 (&sums)[value_padded / 8][4]) {
    wgmma_commit();
    wgmma_wait<0>();
    keep_all(sums);
  }
};
