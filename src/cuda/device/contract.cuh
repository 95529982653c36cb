// Matrix products and convolutions (implicit GEMM). A block computes a tile of BM × BN: slices of A and B, 128 bytes of
// k a row, pass through a ring of STAGES in shared memory; what comes after the sum is Finish, on 8 columns at a time.
// Rows of a slice are swizzled by 16 bytes (chunk ^ row mod 8), so that neither copies nor matrix loads meet in a bank.

__device__ __forceinline__ i64 offset_of_row(const RowMap& map, u32 row) {
  i64 offset = 0;
  u32 rest = row;
  for (u32 d = map.rank; d-- > 0;) {
    const u32 quotient = d == 0 ? 0 : map.size[d].quotient(rest);
    offset += i64(rest - quotient * map.size[d].value) * map.stride[d];
    rest = quotient;
  }
  return offset;
}

constexpr int columns_at_once = 8;

/// 8 columns of an operand; those from `count` on are not read.
template <class T>
__device__ __forceinline__ void load_columns(const EpilogueOperand& operand, u32 row, u32 column, u32 count,
                                             T (&to)[columns_at_once]) {
  const T* from = static_cast<const T*>(operand.data) + offset_of_row(operand.rows, row);
  if (operand.vector && count == columns_at_once) {
    constexpr int block = sizeof(T) * columns_at_once <= 16 ? columns_at_once : 16 / sizeof(T);
    for (int i = 0; i < columns_at_once; i += block)
      *reinterpret_cast<Block<sizeof(T) * block>*>(to + i) =
          *reinterpret_cast<const Block<sizeof(T) * block>*>(from + column + i);
  } else {
    for (u32 i = 0; i < columns_at_once; ++i) to[i] = i < count ? from[(column + i) * operand.column_stride] : T{};
  }
}

template <class T>
__device__ __forceinline__ void store_columns(const ContractParameters& p, u32 row, u32 column, u32 count,
                                              const T (&from)[columns_at_once]) {
  T* to = static_cast<T*>(p.c) + i64(row) * p.c_row + column;
  if (p.c_vector && count == columns_at_once) {
    constexpr int block = sizeof(T) * columns_at_once <= 16 ? columns_at_once : 16 / sizeof(T);
    for (int i = 0; i < columns_at_once; i += block)
      *reinterpret_cast<Block<sizeof(T) * block>*>(to + i) = *reinterpret_cast<const Block<sizeof(T) * block>*>(from + i);
  } else {
    for (u32 i = 0; i < count; ++i) to[i] = from[i];
  }
}

__device__ __forceinline__ void multiply_add(f16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_f16(d, a, b);
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void multiply_add(bf16, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_bf16(d, a, b);
}
__device__ __forceinline__ void multiply_add(f32, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_tf32(d, a, b);
}
#endif

/// A_IS_WINDOWS: A is read through the windows of a convolution. B_BY_COLUMNS: B is stored [k][n] with n consecutive
/// (16-bit types, BN at least 64). TENSOR: on tensor cores; else f32 in plain FMA, exact.
template <class T, int BM, int BN, int WARPS_M, int WARPS_N, int STAGES, bool A_IS_WINDOWS, bool B_BY_COLUMNS,
          bool TENSOR, class Finish>
struct Contract {
  static constexpr int threads = 32 * WARPS_M * WARPS_N;
  static constexpr int chunk = 16 / sizeof(T), bk = 8 * chunk;  ///< elements
  static constexpr int rows_at_once = threads / 8;              ///< that all threads copy together, 8 chunks each
  static constexpr int a_copies = BM / rows_at_once, b_copies = BN / rows_at_once;
  static constexpr int stage_bytes = (BM + BN) * 128;
  static constexpr int sum_pitch = BN + 4;  ///< floats; of the tile's sums in shared memory
  static_assert(a_copies > 0 && b_copies > 0 && BM % rows_at_once == 0 && BN % rows_at_once == 0);

  static __device__ __forceinline__ u32 swizzled(u32 row, u32 chunk_of_row) {
    return row * 128 + ((chunk_of_row ^ (row & 7)) << 4);
  }

  struct Position {
    i32 pixel, y, x;
  };

  // ---- copying slices

  const ContractParameters& p;
  unsigned char* shared;
  const T* a;
  const T* b;
  u32 row0, column0, lane_chunk, lane_row;
  Position at[A_IS_WINDOWS ? a_copies : 1];
  u32 tap_y, tap_x, tap_channel;  ///< of this thread's chunk in the next slice

  __device__ __forceinline__ Contract(const ContractParameters& parameters, unsigned char* memory, u32 z, u32 tile,
                                      u32 first_k_tile)
      : p(parameters), shared(memory) {
    const u32 tile_m = p.tiles_n.quotient(tile);
    row0 = tile_m * BM;
    column0 = (tile - tile_m * p.tiles_n.value) * BN;
    a = static_cast<const T*>(p.a) + offset_of_row(p.a_batch, z);
    b = static_cast<const T*>(p.b) + offset_of_row(p.b_batch, z);
    lane_chunk = threadIdx.x % 8;
    lane_row = threadIdx.x / 8;
    if (A_IS_WINDOWS) {
      for (int i = 0; i < a_copies; ++i) at[A_IS_WINDOWS ? i : 0] = position(row0 + lane_row + i * rows_at_once);
      const u32 k = first_k_tile * bk + lane_chunk * chunk;
      const u32 tap = p.channels.quotient(k);
      tap_channel = k - tap * p.channels.value;
      tap_y = p.window_w.quotient(tap);
      tap_x = tap - tap_y * p.window_w.value;
    }
  }

  /// Of the window that row `row` of A is; one that is outside everything for rows behind the last.
  __device__ __forceinline__ Position position(u32 row) const {
    if (row >= p.m) return {0, -(1 << 30), 0};
    const u32 image = p.out_pixels.quotient(row), in_image = row - image * p.out_pixels.value;
    const u32 y = p.out_w.quotient(in_image), x = in_image - y * p.out_w.value;
    return {i32(image * p.in_h * p.in_w), i32(y) * p.stride_h - p.pad_top, i32(x) * p.stride_w - p.pad_left};
  }

  __device__ __forceinline__ bool inside(i32 y, i32 x) const { return u32(y) < p.in_h && u32(x) < p.in_w; }

  /// Chunk `c` of a slice's row, element by element; `get(k)` is an element, `k0` the slice's first.
  template <class Get>
  static __device__ __forceinline__ void gather(unsigned char* to, u32 k0, u32 k_end, Get get) {
    T elements[chunk];
    for (int j = 0; j < chunk; ++j) elements[j] = k0 + j < k_end ? get(k0 + j) : T{};
    *reinterpret_cast<Block<16>*>(to) = *reinterpret_cast<const Block<16>*>(elements);
  }

  __device__ __forceinline__ static int bytes_left(u32 at, u32 end) {
    return at >= end ? 0 : end - at >= u32(chunk) ? 16 : int(end - at) * int(sizeof(T));
  }

  __device__ __forceinline__ void copy_a(unsigned char* to, u32 k_tile) {
    const u32 k = k_tile * bk + lane_chunk * chunk;
    if (A_IS_WINDOWS) {
      for (int i = 0; i < a_copies; ++i) {
        const Position& window = at[A_IS_WINDOWS ? i : 0];
        unsigned char* here = to + swizzled(lane_row + i * rows_at_once, lane_chunk);
        if (p.a_vector) {
          const i32 y = window.y + i32(tap_y) * p.dilation_h, x = window.x + i32(tap_x) * p.dilation_w;
          const bool exists = k < p.k && inside(y, x);
          const T* from = exists ? a + (window.pixel + y * i32(p.in_w) + x) * p.a_row + tap_channel : a;
          copy_async_16(here, from, exists ? 16 : 0);
        } else {
          gather(here, k, p.k, [&](u32 element) {
            const u32 tap = p.channels.quotient(element), tap_row = p.window_w.quotient(tap);
            const i32 y = window.y + i32(tap_row) * p.dilation_h,
                      x = window.x + i32(tap - tap_row * p.window_w.value) * p.dilation_w;
            const u32 channel = element - tap * p.channels.value;
            return inside(y, x) ? a[(window.pixel + y * i32(p.in_w) + x) * p.a_row + channel] : T{};
          });
        }
      }
      if (p.a_vector) {
        tap_channel += bk;
        while (tap_channel >= p.channels.value) {
          tap_channel -= p.channels.value;
          if (++tap_x == p.window_w.value) {
            tap_x = 0;
            ++tap_y;
          }
        }
      }
    } else {
      copy_rows<BM, a_copies>(to, k_tile, a, p.a_row, p.a_column, p.a_vector, row0, p.m);
    }
  }

  /// A slice of a matrix with any strides.
  template <int ROWS, int COPIES>
  __device__ __forceinline__ void copy_rows(unsigned char* to, u32 k_tile, const T* from, i64 row_stride,
                                            i64 column_stride, u32 vector, u32 first_row, u32 end_row) const {
    if (vector) {
      const u32 k = k_tile * bk + lane_chunk * chunk;
      for (int i = 0; i < COPIES; ++i) {
        const u32 r = lane_row + i * rows_at_once, row = first_row + r;
        const int bytes = row < end_row ? bytes_left(k, p.k) : 0;
        copy_async_16(to + swizzled(r, lane_chunk), bytes > 0 ? from + row * row_stride + k : from, bytes);
      }
      return;
    }
    for (int i = 0; i < COPIES; ++i) {
      // Neighbouring threads take neighbours in memory.
      const u32 e = threadIdx.x + i * threads;
      const u32 r = row_stride == 1 ? e % ROWS : e / 8, c = row_stride == 1 ? e / ROWS : e % 8;
      const u32 row = first_row + r;
      gather(to + swizzled(r, c), k_tile * bk + c * chunk, row < end_row ? p.k : 0,
             [&](u32 k) { return from[row * row_stride + k * column_stride]; });
    }
  }

  __device__ __forceinline__ void copy_b(unsigned char* to, u32 k_tile) const {
    if (!B_BY_COLUMNS) {
      copy_rows<BN, b_copies>(to, k_tile, b, p.b_row, p.b_column, p.b_vector, column0, p.n);
      return;
    }
    // Panels of 64 columns, a row for each k.
    for (int i = 0; i < b_copies; ++i) {
      const u32 e = threadIdx.x + i * threads;
      constexpr u32 chunks_a_row = BN / chunk;
      const u32 r = e / chunks_a_row, c = e % chunks_a_row;
      const u32 k = k_tile * bk + r, column = column0 + c * chunk;
      unsigned char* here = to + (c / 8) * (bk * 128) + swizzled(r, c % 8);
      if (p.b_vector) {
        const int bytes = k < p.k ? bytes_left(column, p.n) : 0;
        copy_async_16(here, bytes > 0 ? b + k * p.b_column + column : b, bytes);
      } else {
        gather(here, column, k < p.k ? p.n : 0, [&](u32 n) { return b[k * p.b_column + n]; });
      }
    }
  }

  // ---- multiplying

  static constexpr int warp_m = BM / WARPS_M, warp_n = BN / WARPS_N;
  static constexpr int tiles_m = warp_m / 16, tiles_n = warp_n / 8;
  static_assert(!TENSOR || (warp_m % 16 == 0 && warp_n % 16 == 0));
  // Without tensor cores: threads of a row of 16 hold columns tx + 16·j, of every so manieth row.
  static constexpr int thread_rows = threads / 16, plain_m = BM / thread_rows, plain_n = BN / 16;

  struct TensorSums {
    float d[tiles_m > 0 ? tiles_m : 1][tiles_n > 0 ? tiles_n : 1][4];
  };
  struct PlainSums {
    float d[plain_m > 0 ? plain_m : 1][plain_n > 0 ? plain_n : 1];
  };

  static __device__ __forceinline__ void multiply(TensorSums& sums, const unsigned char* stage) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 m0 = warp / WARPS_N * warp_m, n0 = warp % WARPS_N * warp_n;
    const unsigned char* b_stage = stage + BM * 128;
#pragma unroll
    for (int step = 0; step < 4; ++step) {  // 32 bytes of k
      u32 fragment_a[tiles_m][4];
      u32 fragment_b[tiles_n / 2][4];
#pragma unroll
      for (int i = 0; i < tiles_m; ++i)
        load_matrix_x4(fragment_a[i], stage + swizzled(m0 + i * 16 + (lane & 15), step * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < tiles_n / 2; ++j) {
        if (B_BY_COLUMNS) {
          const u32 n = n0 + j * 16 + (lane >> 4) * 8;
          load_matrix_x4_transposed(fragment_b[j],
                                    b_stage + n / 64 * (bk * 128) + swizzled(step * 16 + (lane & 15), n % 64 / 8));
        } else {
          load_matrix_x4(fragment_b[j], b_stage + swizzled(n0 + j * 16 + (lane & 7) + ((lane >> 4) << 3),
                                                           step * 2 + ((lane >> 3) & 1)));
        }
      }
#pragma unroll
      for (int i = 0; i < tiles_m; ++i)
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          const u32 pair[2] = {fragment_b[j / 2][j % 2 * 2], fragment_b[j / 2][j % 2 * 2 + 1]};
          multiply_add(T{}, sums.d[i][j], fragment_a[i], pair);
        }
    }
  }

  static __device__ __forceinline__ void multiply(PlainSums& sums, const unsigned char* stage) {
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const unsigned char* b_stage = stage + BM * 128;
#pragma unroll 2
    for (u32 c = 0; c < 8; ++c) {
      float4 x[plain_m], w[plain_n];
#pragma unroll
      for (int i = 0; i < plain_m; ++i)
        x[i] = *reinterpret_cast<const float4*>(stage + swizzled(ty + i * thread_rows, c));
#pragma unroll
      for (int j = 0; j < plain_n; ++j) w[j] = *reinterpret_cast<const float4*>(b_stage + swizzled(tx + j * 16, c));
#pragma unroll
      for (int i = 0; i < plain_m; ++i)
#pragma unroll
        for (int j = 0; j < plain_n; ++j) {
          sums.d[i][j] = fmaf(x[i].x, w[j].x, sums.d[i][j]);
          sums.d[i][j] = fmaf(x[i].y, w[j].y, sums.d[i][j]);
          sums.d[i][j] = fmaf(x[i].z, w[j].z, sums.d[i][j]);
          sums.d[i][j] = fmaf(x[i].w, w[j].w, sums.d[i][j]);
        }
    }
  }

  static __device__ __forceinline__ void put(const TensorSums& sums, float* to) {
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 m0 = warp / WARPS_N * warp_m + lane / 4, n0 = warp % WARPS_N * warp_n + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < tiles_m; ++i)
#pragma unroll
      for (int j = 0; j < tiles_n; ++j) {
        float* here = to + (m0 + i * 16) * sum_pitch + n0 + j * 8;
        *reinterpret_cast<float2*>(here) = make_float2(sums.d[i][j][0], sums.d[i][j][1]);
        *reinterpret_cast<float2*>(here + 8 * sum_pitch) = make_float2(sums.d[i][j][2], sums.d[i][j][3]);
      }
  }

  static __device__ __forceinline__ void put(const PlainSums& sums, float* to) {
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < plain_m; ++i)
#pragma unroll
      for (int j = 0; j < plain_n; ++j) to[(ty + i * thread_rows) * sum_pitch + tx + j * 16] = sums.d[i][j];
  }

  // ---- what comes after the sum

  /// `sum(row, column, v)` gives 8 sums of the tile.
  template <class Sum>
  __device__ __forceinline__ void finish(u32 z, Sum sum) const {
    for (u32 e = threadIdx.x; e < BM * BN / columns_at_once; e += threads) {
      const u32 r = e / (BN / columns_at_once), c = e % (BN / columns_at_once) * columns_at_once;
      if (row0 + r >= p.m || column0 + c >= p.n) continue;
      float v[columns_at_once];
      sum(r, c, v);
      const u32 left = p.n - column0 - c;
      Finish::run(p, v, z * p.c_row_step + row0 + r, z * p.c_column_step + column0 + c,
                  left < columns_at_once ? left : columns_at_once);
    }
  }

  static __device__ __forceinline__ void load_sums(const float* from, float (&v)[columns_at_once]) {
    const float4 low = *reinterpret_cast<const float4*>(from), high = *reinterpret_cast<const float4*>(from + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
    v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
  }

  template <class Sums>
  static __device__ __forceinline__ void run_with(const ContractParameters& p) {
    DYNAMIC_SHARED(shared);
    const u32 z = p.tiles.quotient(blockIdx.x), tile = blockIdx.x - z * p.tiles.value;
    const u32 split = blockIdx.y, splits = gridDim.y;
    const u32 first = split * p.k_tiles_per_split;
    const u32 end = first + p.k_tiles_per_split < p.k_tiles ? first + p.k_tiles_per_split : p.k_tiles;
    Contract block(p, shared, z, tile, first);
    Sums sums = {};
    for (int s = 0; s < STAGES - 1; ++s) {
      if (first + s < end) {
        block.copy_a(shared + s * stage_bytes, first + s);
        block.copy_b(shared + s * stage_bytes + BM * 128, first + s);
      }
      copy_async_commit();
    }
    u32 from = 0, to = STAGES - 1;  // stages
    for (u32 k_tile = first; k_tile < end; ++k_tile) {
      copy_async_wait<STAGES - 2>();
      __syncthreads();
      if (k_tile + STAGES - 1 < end) {
        block.copy_a(shared + to * stage_bytes, k_tile + STAGES - 1);
        block.copy_b(shared + to * stage_bytes + BM * 128, k_tile + STAGES - 1);
      }
      copy_async_commit();
      multiply(sums, shared + from * stage_bytes);
      from = from + 1 == STAGES ? 0 : from + 1;
      to = to + 1 == STAGES ? 0 : to + 1;
    }
    copy_async_wait<0>();
    __syncthreads();
    float* staged = reinterpret_cast<float*>(shared);
    put(sums, staged);
    __syncthreads();
    if (splits == 1) {
      block.finish(z, [&](u32 r, u32 c, float(&v)[columns_at_once]) { load_sums(staged + r * sum_pitch + c, v); });
      return;
    }
    // Each block leaves its sums; the last of a tile adds them up, always in the same order.
    float* partial = p.partial + i64(blockIdx.x) * splits * (BM * BN);
    for (u32 e = threadIdx.x; e < BM * BN / 4; e += threads) {
      const u32 r = e / (BN / 4), c = e % (BN / 4) * 4;
      *reinterpret_cast<float4*>(partial + split * (BM * BN) + e * 4) =
          *reinterpret_cast<const float4*>(staged + r * sum_pitch + c);
    }
    __threadfence();
    __syncthreads();
    u32* turn = reinterpret_cast<u32*>(shared);
    if (threadIdx.x == 0) *turn = atomicAdd(p.counters + blockIdx.x, 1u);
    __syncthreads();
    if (*turn + 1 != splits) return;
    __threadfence();
    if (threadIdx.x == 0) p.counters[blockIdx.x] = 0;
    block.finish(z, [&](u32 r, u32 c, float(&v)[columns_at_once]) {
      for (int i = 0; i < columns_at_once; ++i) v[i] = 0;
      for (u32 s = 0; s < splits; ++s) {
        float part[columns_at_once];
        load_sums(partial + s * (BM * BN) + r * BN + c, part);
        for (int i = 0; i < columns_at_once; ++i) v[i] += part[i];
      }
    });
  }

  static __device__ __forceinline__ void run(const ContractParameters& p) {
    if constexpr (TENSOR) {
      run_with<TensorSums>(p);
    } else {
      run_with<PlainSums>(p);
    }
  }
};
