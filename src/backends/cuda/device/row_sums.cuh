// The ends of products of few rows with weights of few bits: what the warps of a block have summed, each over a part of k, and the blocks that share
// columns, becomes the result.

/// COLUMNS of the result, a multiple of 16. TILES: of 8 rows, or of their PARTS: row r has rows r · PARTS + j of the tiles.
template <int COLUMNS, int TILES, int WARPS, int PARTS, class Finish>
struct RowSums {
  static constexpr u32 threads = 32 * WARPS;
  static constexpr u32 pitch = COLUMNS + 4;  ///< of the sums of one row, in shared memory: lanes meet in no bank
  static constexpr u32 warp_sums = TILES * 8 * pitch;

  /// What a lane has of 16 columns by TILES · 8 rows, as products by mma leave it: columns g and g + 8 of rows 2 t and
  /// 2 t + 1, where g is the lane's number over 4, and t the rest.
  typedef f32 Sums[COLUMNS / 16][TILES][4];

  /// What comes before all else: blocks of a cluster leave sums with each other, who must have begun.
  template <class Parameters>
  static __device__ __forceinline__ void begin(const Parameters& p, unsigned char* shared) {
    if (p.is_cluster) begin_cluster_sums(sums_are_there(p, shared));
  }

  /// Adds up the warps' sums, and those of blocks that share columns (blockIdx.y of them), always in the same order, and
  /// does what comes behind. `shared`: nobody reads it any more.
  template <class Parameters>
  static __device__ __forceinline__ void finish(const Parameters& p, const Sums& sum, unsigned char* shared,
                                                u32 first_row, u32 rows, const typename Finish::OfBlock& of_block) {
    const u32 lane = threadIdx.x % 32;
    f32* const sums = reinterpret_cast<f32*>(shared);
    f32* const of_warp = sums + threadIdx.x / 32 * warp_sums;
#pragma unroll
    for (int c = 0; c < COLUMNS / 16; ++c)
#pragma unroll
      for (int t = 0; t < TILES; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          of_warp[(t * 8 + lane % 4 * 2 + e % 2) * pitch + c * 16 + lane / 4 + e / 2 * 8] = sum[c][t][e];
    __syncthreads();
    f32* const result = sums + WARPS * warp_sums;
    const u32 splits = gridDim.y, share = blockIdx.x * gridDim.z + blockIdx.z, size = p.rows * COLUMNS;
    f32* const partial = p.partial + u64(share) * splits * size;
    const bool stays = splits == 1 || p.is_cluster;
#pragma unroll 1
    for (u32 e = threadIdx.x; e < rows * COLUMNS; e += threads) {
      f32 total = 0;
#pragma unroll
      for (u32 j = 0; j < PARTS; ++j) {
        const f32* here = sums + (e / COLUMNS * PARTS + j) * pitch + e % COLUMNS;
        f32 part = 0;
#pragma unroll
        for (u32 w = 0; w < WARPS; ++w) part += here[w * warp_sums];
        total += part;
      }
      (stays ? result : partial + blockIdx.y * size)[e] = total;
    }
    if (splits > 1 && !(p.is_cluster ? add_in_cluster(p, shared, result, rows) : add_in_memory(p, shared, result, rows)))
      return;
    of_block.put(p);
    __syncthreads();
    constexpr u32 threads_a_row = COLUMNS / columns_at_once;
    static_assert(threads >= TILES * 8 / PARTS * threads_a_row, "each thread has 8 columns of one row");
    const u32 row = threadIdx.x / threads_a_row, c = threadIdx.x % threads_a_row * columns_at_once;
    const u32 column = blockIdx.x * COLUMNS + c;
    if (row >= rows || column >= p.n) return;
    f32 v[columns_at_once];
    load(result + row * COLUMNS + c, v);
    finish_columns<Finish>(p, v, first_row + row, column,
                           Finish::aligned || p.n - column > columns_at_once ? columns_at_once : p.n - column);
  }

 private:
  /// Before the parts. Ends when block 0 of a cluster has the sums of all.
  template <class Parameters>
  static __device__ __forceinline__ u64* sums_are_there(const Parameters& p, unsigned char* shared) {
    return reinterpret_cast<u64*>(shared + p.parts - cluster_barrier_bytes);
  }

  /// Block 0 of a cluster gets the sums of all, behind its own. False in the others.
  template <class Parameters>
  static __device__ __forceinline__ bool add_in_cluster(const Parameters& p, unsigned char* shared, f32* result, u32 rows) {
#if __CUDA_ARCH__ >= 900
    const u32 splits = gridDim.y, size = p.rows * COLUMNS;
    const f32* const parts = reinterpret_cast<const f32*>(shared + p.parts);
    const u32 to = shared_address(parts) + blockIdx.y * size * u32(sizeof(f32));
    __syncthreads();
    if (blockIdx.y == 0 && threadIdx.x == 0)
      phase_barrier_expect(sums_are_there(p, shared), splits * rows * COLUMNS * u32(sizeof(f32)));
    cluster_wait();  // all have begun, long ago
#pragma unroll 1
    for (u32 e = threadIdx.x * 4; e < rows * COLUMNS; e += threads * 4)
      send_to_cluster(to + e * u32(sizeof(f32)), shared_address(sums_are_there(p, shared)), 0,
                      *reinterpret_cast<const float4*>(result + e));
    if (blockIdx.y != 0) return false;
    phase_barrier_wait(sums_are_there(p, shared), 0);
#pragma unroll 1
    for (u32 e = threadIdx.x; e < rows * COLUMNS; e += threads) {
      f32 total = 0;
      for (u32 s = 0; s < splits; ++s) total += parts[s * size + e];
      result[e] = total;
    }
#endif
    return true;
  }

  /// The last block that comes gets the sums of all from memory. False in the others.
  template <class Parameters>
  static __device__ __forceinline__ bool add_in_memory(const Parameters& p, unsigned char* shared, f32* result, u32 rows) {
    const u32 splits = gridDim.y, share = blockIdx.x * gridDim.z + blockIdx.z, size = p.rows * COLUMNS;
    const f32* const partial = p.partial + u64(share) * splits * size;
    __threadfence();
    __syncthreads();
    u32* const turn = reinterpret_cast<u32*>(shared);
    if (threadIdx.x == 0) *turn = atomicAdd(p.counters + share, 1u);
    __syncthreads();
    if (*turn + 1 != splits) return false;
    __threadfence();
    if (threadIdx.x == 0) p.counters[share] = 0;
#pragma unroll 1
    for (u32 e = threadIdx.x; e < rows * COLUMNS; e += threads) {
      f32 total = 0;
      for (u32 s = 0; s < splits; ++s) total += partial[s * size + e];
      result[e] = total;
    }
    return true;
  }
};
