// Rows of a product's operands that are normed where they are read, and the moments of those that a product gives (see
// ops/row_moments.h). Whoever includes this defines tile_rows, at whose multiples tiles begin, a multiple of 8,
// tile_columns and tile_threads.

/// Of the block's rows: mean, and 1 / sqrt(variance + epsilon).
__device__ __forceinline__ float2* row_norms() {
  __shared__ float2 norms[tile_rows];
  return norms;
}

/// Of a row: mean, and 1 / sqrt(variance + epsilon). 4 lanes beside each other have its parts; `walk(take)` calls
/// take(part) for each that this lane has.
template <int width, bool root_mean_square, class Walk>
__device__ __forceinline__ float2 norm_of(u32 parts, f32 epsilon, Walk walk) {
  constexpr u32 full = 0xffffffffu;
  const f32 share = 1 / f32(parts);
  f32 mean = 0, squares = 0;
  if (!root_mean_square) {
    walk([&](float2 part) { mean += part.x; });
    mean += __shfl_xor_sync(full, mean, 1);
    mean += __shfl_xor_sync(full, mean, 2);
    mean *= share;
  }
  walk([&](float2 part) { squares += part.y + f32(width) * ((part.x - mean) * (part.x - mean)); });
  squares += __shfl_xor_sync(full, squares, 1);
  squares += __shfl_xor_sync(full, squares, 2);
  return make_float2(mean, 1 / sqrtf(squares * (share / f32(width)) + epsilon));
}

/// 4 neighbouring lanes take a row.
template <int width, bool root_mean_square>
__device__ __forceinline__ void find_row_norms(const EpilogueOperand& moments, u32 first_row, u32 end_row, f32 epsilon) {
  constexpr u32 lanes = 4, at_once = 8;
  const u32 parts = moments.row_stride, lane = threadIdx.x % lanes;
  for (u32 r = threadIdx.x / lanes; r < tile_rows; r += tile_threads / lanes) {
    const bool exists = first_row + r < end_row;
    const float2* from = static_cast<const float2*>(moments.data) + i64(first_row + r) * parts;
    float2 norm;
    if (parts <= lanes * at_once) {
      // All are under way together: memory is half a microsecond away.
      float2 held[at_once];
#pragma unroll
      for (u32 i = 0; i < at_once; ++i)
        if (exists && lane + i * lanes < parts) held[i] = from[lane + i * lanes];
      norm = norm_of<width, root_mean_square>(parts, epsilon, [&](auto take) {
#pragma unroll
        for (u32 i = 0; i < at_once; ++i)
          if (exists && lane + i * lanes < parts) take(held[i]);
      });
    } else {
      norm = norm_of<width, root_mean_square>(parts, epsilon, [&](auto take) {
        if (exists)
          for (u32 i = lane; i < parts; i += lanes) take(from[i]);
      });
    }
    if (lane == 0) row_norms()[r] = norm;
  }
}

/// The moments of 32 columns as they are stored, of which this lane has 8 and the 3 beside it the others.
template <class T>
__device__ __forceinline__ void put_moments(const EpilogueOperand& to, u32 row, u32 column, const f32 (&y)[8]) {
  static_assert(tile_columns % 32 == 0, "tiles have whole parts of rows");
  const u32 lanes = 0xfu << (threadIdx.x % 32 & ~3u);
  f32 x[8], mean = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    x[i] = widen(Narrow<T>::from(y[i]));
    mean += x[i];
  }
  mean += __shfl_xor_sync(lanes, mean, 1);
  mean += __shfl_xor_sync(lanes, mean, 2);
  mean *= 1.0f / 32;
#pragma unroll
  for (int i = 0; i < 8; ++i) squares += (x[i] - mean) * (x[i] - mean);
  squares += __shfl_xor_sync(lanes, squares, 1);
  squares += __shfl_xor_sync(lanes, squares, 2);
  if (column % 32 == 0)
    static_cast<float2*>(const_cast<void*>(to.data))[i64(row) * to.row_stride + column / 32] = make_float2(mean, squares);
}
