// Rows of a product's operands that are normed where they are read, and the moments of those that a product gives (see
// ops/row_moments.h). Whoever includes this defines tile_rows, at whose multiples tiles begin, a multiple of 8,
// tile_columns and tile_threads.

/// Of the block's rows: mean, and 1 / sqrt(variance + epsilon).
__device__ __forceinline__ float2* row_norms() {
  __shared__ float2 norms[tile_rows];
  return norms;
}

/// Of a row: mean, and 1 / sqrt(variance + epsilon). `lanes` beside each other have its parts; `walk(take)` calls
/// take(part) for each that this lane has.
template <int width, bool root_mean_square, u32 lanes, class Walk>
__device__ __forceinline__ float2 norm_of(u32 parts, f32 epsilon, Walk walk) {
  const auto all_lanes = [](f32 x) {
#pragma unroll
    for (u32 distance = 1; distance < lanes; distance *= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
  };
  const f32 share = 1 / f32(parts);
  f32 mean = 0, squares = 0;
  if (!root_mean_square) {
    walk([&](float2 part) { mean += part.x; });
    mean = all_lanes(mean) * share;
  }
  walk([&](float2 part) { squares += part.y + f32(width) * ((part.x - mean) * (part.x - mean)); });
  squares = all_lanes(squares);
  return make_float2(mean, 1 / sqrtf(squares * (share / f32(width)) + epsilon));
}

/// The norms of the block's rows; as many neighbouring lanes as there are for each take one, four or more. What they are
/// computed from is asked for before the sums and looked at behind them, where these leave registers for it: memory is half
/// a microsecond away (with the sums of clusters, BERT of 128 tokens on an H200: 367 us, now 345; four lanes read the 64
/// parts of one row of 2,048 one after the other, for 3.5 us).
template <int width, bool root_mean_square>
struct RowNorms {
  static constexpr u32 lanes_of(u32 most) { return most < 8 ? 4 : most < 16 ? 8 : most < 32 ? 16 : 32; }
  static constexpr u32 lanes = lanes_of(tile_threads / tile_rows), at_once = 8, rows_at_once = tile_threads / lanes;
  static constexpr u32 rows = (tile_rows + rows_at_once - 1) / rows_at_once;  ///< of a thread
  // Few rows have their registers full of weights: held beside these, parts were spilled.
  static constexpr bool can_hold = lanes < 32 && rows <= 2 && tile_rows * tile_columns / tile_threads <= 32;

  float2 held[can_hold ? rows : 1][at_once];

  static __device__ __forceinline__ bool holds(u32 parts) { return can_hold && parts <= lanes * at_once; }
  static __device__ __forceinline__ u32 row(u32 i) { return threadIdx.x / lanes + i * rows_at_once; }

  __device__ __forceinline__ void load(const EpilogueOperand& moments, u32 first_row, u32 end_row, f32 epsilon) {
    const u32 parts = moments.row_stride, lane = threadIdx.x % lanes;
#pragma unroll
    for (u32 i = 0; i < rows; ++i) {
      const u32 r = row(i);
      const bool exists = r < tile_rows && first_row + r < end_row;
      const float2* from = static_cast<const float2*>(moments.data) + i64(first_row + r) * parts;
      if (holds(parts)) {
#pragma unroll
        for (u32 j = 0; j < at_once; ++j)
          held[can_hold ? i : 0][j] =
              exists && lane + j * lanes < parts ? from[lane + j * lanes] : make_float2(0, 0);
      } else {
        const float2 norm = norm_of<width, root_mean_square, lanes>(parts, epsilon, [&](auto take) {
          if (exists) walk_row(from, parts, lane, take);
        });
        if (lane == 0 && r < tile_rows) row_norms()[r] = norm;
      }
    }
  }
  /// Two parts by each load where their number is even: the loads of few rows wait for one another.
  template <class Take>
  static __device__ __forceinline__ void walk_row(const float2* from, u32 parts, u32 lane, Take take) {
    if (parts % 2 == 0) {
#pragma unroll 2
      for (u32 j = lane; j < parts / 2; j += lanes) {
        const float4 two = reinterpret_cast<const float4*>(from)[j];
        take(make_float2(two.x, two.y));
        take(make_float2(two.z, two.w));
      }
    } else {
#pragma unroll 1
      for (u32 j = lane; j < parts; j += lanes) take(from[j]);
    }
  }
  __device__ __forceinline__ void put(const EpilogueOperand& moments, f32 epsilon) const {
    const u32 parts = moments.row_stride, lane = threadIdx.x % lanes;
    if (!holds(parts)) return;
#pragma unroll
    for (u32 i = 0; i < rows; ++i) {
      const float2 norm = norm_of<width, root_mean_square, lanes>(parts, epsilon, [&](auto take) {
#pragma unroll
        for (u32 j = 0; j < at_once; ++j)
          if (lane + j * lanes < parts) take(held[can_hold ? i : 0][j]);
      });
      if (lane == 0 && row(i) < tile_rows) row_norms()[row(i)] = norm;
    }
  }
};

/// The moments of `width` columns, 16 or 32, as they are stored: this lane has 8, and those beside it the others.
template <class T, int width>
__device__ __forceinline__ void put_moments(const EpilogueOperand& to, u32 row, u32 column, const f32 (&y)[8]) {
  static_assert(tile_columns % width == 0 || sizeof(T) == 0, "tiles have whole parts of rows");  // of who calls it
  constexpr u32 lanes_a_part = width / 8;
  const u32 lanes = ((1u << lanes_a_part) - 1) << (threadIdx.x % 32 & ~(lanes_a_part - 1));
  const auto all_lanes = [&](f32 sum) {
#pragma unroll
    for (u32 distance = 1; distance < lanes_a_part; distance *= 2) sum += __shfl_xor_sync(lanes, sum, distance);
    return sum;
  };
  f32 x[8], mean = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = widen(Narrow<T>::from(y[i]));
    mean += x[i];
  }
  mean = all_lanes(mean) * (1.0f / width);
#pragma unroll
  for (int i = 0; i < 8; ++i) squares += (x[i] - mean) * (x[i] - mean);
  squares = all_lanes(squares);
  if (column % width == 0)
    static_cast<float2*>(const_cast<void*>(to.data))[i64(row) * to.row_stride + column / width] =
        make_float2(mean, squares);
}
