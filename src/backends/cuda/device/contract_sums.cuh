// The sums of a block's tile of a contraction, in the registers of its threads: each kind multiplies a slice that lies in
// shared memory and puts what it has into shared memory, row by row, in the end.

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
__device__ __forceinline__ void multiply_add(i8, i32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_bytes<true>(d, a, b);
}
__device__ __forceinline__ void multiply_add(u8, i32 (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_bytes<false>(d, a, b);
}
#endif
#if __CUDA_ARCH__ >= 890
__device__ __forceinline__ void multiply_add(f8e4m3, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_float8<true>(d, a, b);
}
__device__ __forceinline__ void multiply_add(f8e5m2, float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  mma_float8<false>(d, a, b);
}
#endif

/// On the tensor cores, warp by warp. warps_k warps share the sums of a part of the tile, each with its part of every
/// slice. B_BY_COLUMNS: see Slices.
template <class TILE, bool B_BY_COLUMNS>
struct WarpSums {
  static constexpr bool is_asynchronous = false;
  typedef typename TILE::T T;
  static constexpr int WARPS_M = TILE::warps_m, WARPS_N = TILE::warps_n, WARPS_K = TILE::warps_k;
  static constexpr int bk = TILE::bk, a_bytes = TILE::a_bytes, sum_pitch = TILE::sum_pitch;
  static constexpr int warp_m = TILE::m / WARPS_M, warp_n = TILE::n / WARPS_N;
  static constexpr int tiles_m = warp_m / 16, tiles_n = warp_n / 8;
  static constexpr int steps = 4 / WARPS_K;  ///< of 32 bytes of k
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0 && steps * WARPS_K == 4);
  typedef typename TILE::Sum Sum;

  Sum d[tiles_m][tiles_n][4];

  __device__ __forceinline__ void clear() { *this = WarpSums{}; }

  static __device__ __forceinline__ u32 warp_row() { return threadIdx.x / 32 / WARPS_N % WARPS_M * warp_m; }
  static __device__ __forceinline__ u32 warp_column() { return threadIdx.x / 32 % WARPS_N * warp_n; }
  static __device__ __forceinline__ u32 warp_k() { return threadIdx.x / 32 / (WARPS_M * WARPS_N); }

  /// Where this lane's rows of a slice's fragments are: a row, and the swizzle of its first chunk, which a step of 32
  /// bytes of k changes in other bits than the lane does. Rows 16 apart have the same.
  struct Lane {
    u32 a, a_swizzle, b, b_swizzle;

    __device__ __forceinline__ Lane() {
      const u32 lane = threadIdx.x % 32;
      const u32 row_a = warp_row() + (lane & 15), row_b = warp_column() + (lane & 7) + ((lane >> 4) << 3);
      const u32 first = warp_k() * steps * 32;
      a = row_a * 128;
      a_swizzle = (((lane >> 4) ^ (row_a & 7)) << 4) ^ first;
      b = a_bytes + row_b * 128;
      b_swizzle = ((((lane >> 3) & 1) ^ (row_b & 7)) << 4) ^ first;
      if (B_BY_COLUMNS) {
        // Rows are of k: the lane's is among a step's 16, whose swizzle is the same for all steps.
        const u32 n = warp_column() + (lane >> 4) * 8, k = warp_k() * steps * 16 + (lane & 15);
        b = a_bytes + n / 64 * (bk * 128) + k * 128;
        b_swizzle = ((n % 64 / 8) ^ (k & 7)) << 4;
      }
      keep(a);
      keep(a_swizzle);
      keep(b);
      keep(b_swizzle);
    }
  };

  struct Fragments {
    u32 a[tiles_m][4], b[tiles_n / 2][4];

    /// What f32 is to be multiplied as: the tensor cores would cut its lowest bits off, all towards 0.
    __device__ __forceinline__ void round() {
#if __CUDA_ARCH__ >= 800
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) a[i][e] = round_to_tf32(a[i][e]);
#pragma unroll
        for (int j = 0; j < tiles_n / 2; ++j) b[j][e] = round_to_tf32(b[j][e]);
      }
#endif
    }
  };

  static __device__ __forceinline__ void load_fragments(Fragments& to, const Lane& lane, u32 stage, u32 step) {
    const u32 from_a = stage + lane.a + (lane.a_swizzle ^ (step * 32));
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) load_matrix_x4(to.a[i], from_a + i * (16 * 128));
    const u32 from_b = stage + lane.b + (B_BY_COLUMNS ? step * (16 * 128) : 0);
#pragma unroll
    for (int j = 0; j < tiles_n / 2; ++j) {
      if constexpr (B_BY_COLUMNS) {
        // 16 columns on are 2 chunks, of 8 in a panel: a warp's columns are within one, or whole ones.
        const u32 panel = j / 4 * (bk * 128);
        load_matrix_x4_transposed(to.b[j], from_b + panel + (lane.b_swizzle ^ (j % 4 * 32)));
      } else {
        load_matrix_x4(to.b[j], from_b + (lane.b_swizzle ^ (step * 32)) + j * (16 * 128));
      }
    }
  }
  static_assert(!B_BY_COLUMNS || warp_n <= 64 || warp_n % 64 == 0);
  static_assert(!B_BY_COLUMNS || 64 % warp_n == 0 || warp_n % 64 == 0);

  __device__ __forceinline__ void multiply(const Lane& lane, const unsigned char* stage) {
    const u32 address = shared_address(stage);
    Fragments fragments[2];
    load_fragments(fragments[0], lane, address, 0);
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) load_fragments(fragments[(step + 1) % 2], lane, address, step + 1);
      Fragments& here = fragments[step % 2];
      if constexpr (sizeof(T) == 4) here.round();
#pragma unroll
      for (int i = 0; i < tiles_m; ++i)
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
          const u32 pair[2] = {here.b[j / 2][j % 2 * 2], here.b[j / 2][j % 2 * 2 + 1]};
          multiply_add(T{}, d[i][j], here.a[i], pair);
        }
    }
  }

  /// The tile's sums to shared memory, ready for all threads.
  __device__ __forceinline__ void put(Sum* to) const {
    const u32 lane = threadIdx.x % 32;
    const u32 m0 = warp_row() + lane / 4, n0 = warp_column() + lane % 4 * 2;
#pragma unroll
    for (int turn = 0; turn < WARPS_K; ++turn) {  // one warp's behind the other's, always in this order
      if (warp_k() == turn) {
#pragma unroll
        for (int i = 0; i < tiles_m; ++i)
#pragma unroll
          for (int j = 0; j < tiles_n; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              Sum* here = to + (m0 + i * 16 + half * 8) * sum_pitch + n0 + j * 8;
              Sum sum[2] = {d[i][j][half * 2], d[i][j][half * 2 + 1]};
              if (turn > 0) {
                Sum before[2];
                load(here, before);
                sum[0] += before[0];
                sum[1] += before[1];
              }
              store(here, sum);
            }
      }
      __syncthreads();
    }
  }
};

/// In multiply-adds of f32, exact: threads of a row of 16 hold columns tx + 16·j, of every so manieth row.
template <class TILE>
struct PlainSums {
  static constexpr bool is_asynchronous = false;
  static constexpr int thread_rows = TILE::threads / 16, plain_m = TILE::m / thread_rows, plain_n = TILE::n / 16;
  static_assert(TILE::warps_k == 1);

  float d[plain_m][plain_n];

  __device__ __forceinline__ void clear() { *this = PlainSums{}; }

  struct Lane {};
  __device__ __forceinline__ void multiply(const Lane&, const unsigned char* stage) {
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    const unsigned char* b_stage = stage + TILE::a_bytes;
#pragma unroll 2
    for (u32 c = 0; c < 8; ++c) {
      float4 x[plain_m], w[plain_n];
#pragma unroll
      for (int i = 0; i < plain_m; ++i)
        x[i] = *reinterpret_cast<const float4*>(stage + TILE::swizzled(ty + i * thread_rows, c));
#pragma unroll
      for (int j = 0; j < plain_n; ++j) w[j] = *reinterpret_cast<const float4*>(b_stage + TILE::swizzled(tx + j * 16, c));
#pragma unroll
      for (int i = 0; i < plain_m; ++i)
#pragma unroll
        for (int j = 0; j < plain_n; ++j) {
          d[i][j] = fmaf(x[i].x, w[j].x, d[i][j]);
          d[i][j] = fmaf(x[i].y, w[j].y, d[i][j]);
          d[i][j] = fmaf(x[i].z, w[j].z, d[i][j]);
          d[i][j] = fmaf(x[i].w, w[j].w, d[i][j]);
        }
    }
  }

  __device__ __forceinline__ void put(float* to) const {
    const u32 tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < plain_m; ++i)
#pragma unroll
      for (int j = 0; j < plain_n; ++j) to[(ty + i * thread_rows) * TILE::sum_pitch + tx + j * 16] = d[i][j];
    __syncthreads();
  }
};
