// The products of attention of 16-bit floats on tensor cores, whose operands lie in shared memory. Fragments as in
// device/intrinsics.cuh. The text before defines Element, head_size, value_size, multiply() and pack() for
// the type, and power(), which exponentials of scores are.

constexpr int head_padded = (head_size + 15) / 16 * 16, value_padded = (value_size + 15) / 16 * 16;

/// How the rows of a tile lie in shared memory: 16 bytes more than a multiple of 32 apart, so that eight of them are in
/// different banks.
struct PaddedRows {
  template <int padded>
  static constexpr int pitch = padded + 8;
  template <int rows, int padded>
  static constexpr int elements = rows * pitch<padded>;
  template <int rows, int padded>
  static __device__ __forceinline__ int at(int r, int c) {
    return r * pitch<padded> + c;
  }
};

/// The products of one warp: 16 queries and warp_keys keys of a tile.
template <int warps_q, int warps_k, int warp_keys>
struct WarpProducts {
  typedef PaddedRows Layout;
  static constexpr int head_pitch = Layout::pitch<head_padded>, value_pitch = Layout::pitch<value_padded>;
  static constexpr bool holds_query = head_padded <= 128;  // in registers

  u32 held[holds_query ? head_padded / 16 : 1][4];
  const Element* query_fragment;
  const Element* values;

  static __device__ __forceinline__ void show() {}
  __device__ __forceinline__ void take_queries(const Element* queries, bool is_first) {
    const u32 lane = threadIdx.x % 32, warp_q = threadIdx.x / 32 / warps_k;
    query_fragment = queries + (warp_q * 16 + lane % 16) * head_pitch + lane / 16 * 8;
    if (holds_query && is_first) {
#pragma unroll
      for (int d = 0; d < head_padded / 16; ++d) load_matrix_x4(held[holds_query ? d : 0], query_fragment + d * 16);
    }
  }
  __device__ __forceinline__ void multiply_keys(f32 (&scores)[warp_keys / 8][4], const Element* keys) {
    const u32 lane = threadIdx.x % 32, warp_k = threadIdx.x / 32 % warps_k;
    const Element* const own = keys + warp_k * warp_keys * head_pitch;
#pragma unroll
    for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[n][e] = 0;
#pragma unroll
    for (int d = 0; d < head_padded / 16; ++d) {
      u32 left[4];
      if (!holds_query) load_matrix_x4(left, query_fragment + d * 16);
#pragma unroll
      for (int n = 0; n < warp_keys / 16; ++n) {
        u32 right[4];
        load_matrix_x4(right, own + (n * 16 + lane % 8 + lane / 16 * 8) * head_pitch + d * 16 + lane / 8 % 2 * 8);
        const u32 low[2] = {right[0], right[1]}, high[2] = {right[2], right[3]};
        multiply(scores[2 * n], holds_query ? held[holds_query ? d : 0] : left, low);
        multiply(scores[2 * n + 1], holds_query ? held[holds_query ? d : 0] : left, high);
      }
    }
  }
  __device__ __forceinline__ void begin_values(const Element* tile) {
    values = tile + threadIdx.x / 32 % warps_k * warp_keys * value_pitch;
  }
  /// Of the warp's keys 16 n to 16 n + 15.
  __device__ __forceinline__ void add_values(f32 (&sums)[value_padded / 8][4], int n, const u32 (&left)[4]) const {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int v = 0; v < value_padded / 16; ++v) {
      u32 right[4];
      load_matrix_x4_transposed(right, values + (n * 16 + lane % 16) * value_pitch + v * 16 + lane / 16 * 8);
      const u32 low[2] = {right[0], right[1]}, high[2] = {right[2], right[3]};
      multiply(sums[2 * v], left, low);
      multiply(sums[2 * v + 1], left, high);
    }
  }
  static __device__ __forceinline__ void finish_values(f32 (&)[value_padded / 8][4]) {}
};

/// Adds what a tile of keys brings to a warp's running sums. A lane has scores and sums of two rows; those of keys that a
/// row does not see are -inf. `values`: the tile's.
template <class Products, int score_count, int value_count>
__device__ __forceinline__ void add_scores(Products& products, f32 (&scores)[score_count][4], const Element* values,
                                           f32 (&largest)[2], f32 (&total)[2], f32 (&sums)[value_count][4]) {
  f32 tops[2] = {-infinity(), -infinity()};
#pragma unroll
  for (int n = 0; n < score_count; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) tops[e / 2] = fmaxf(tops[e / 2], scores[n][e]);
  f32 references[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    tops[r] = fmaxf(largest[r], combine_lanes(tops[r], 4, [](f32 x, f32 y) { return fmaxf(x, y); }));
    references[r] = reference_of(tops[r]);
    const f32 shrink = power(largest[r] - references[r]);
    largest[r] = tops[r];
    total[r] *= shrink;
#pragma unroll
    for (int v = 0; v < value_count; ++v) {
      sums[v][2 * r] *= shrink;
      sums[v][2 * r + 1] *= shrink;
    }
  }
  products.begin_values(values);
#pragma unroll
  for (int n = 0; n < score_count / 2; ++n) {
    u32 left[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      f32* const pair = &scores[2 * n + i / 2][i % 2 * 2];
      const f32 low = power(pair[0] - references[i % 2]), high = power(pair[1] - references[i % 2]);
      total[i % 2] += low + high;
      left[i] = pack(low, high);
    }
    products.add_values(sums, n, left);
  }
  products.finish_values(sums);
}
