// Products of up to eight rows with constant weights, which lie in rows along k as kernels for many rows have them. What
// they take is the time that the weights come from memory in: a warp reads 512 neighbouring bytes of each of four columns'
// weights at once, into registers, and multiplies by FMA in f32. (Fragments of the tensor cores would be pieces of 64
// bytes: on an H200 16,384 columns of 2,048 take 16.1 us so, 17.6 as fragments, and 19 by the tiles of many rows.)

/// X is what Rows gets. WHOLE: all warps have four columns, and rows of B whole pieces. M: rows that a block has, 1, 2, 4 or 8. SHARES: warps that have the same columns, of which they take
/// pieces of k in turn.
template <class T, class Rows, bool WHOLE, int M, int WARPS, int SHARES, class Finish>
struct FewRows {
  typedef FewRowsParameters Parameters;
  static constexpr u32 threads = 32 * WARPS, of_warp = 4, columns = WARPS / SHARES * of_warp;
  static constexpr u32 elements = 16 / sizeof(T), piece = 32 * elements;  ///< along k: of a lane, of a warp
  static constexpr u32 depth = 2;                                        ///< pieces that a warp has on their way
  static constexpr u32 sums = of_warp * M;
  static_assert(columns % columns_at_once == 0, "the columns of a row that a thread finishes lie in one block");

  /// The block's first column: blocks of a cluster have neighbouring ones.
  static __device__ __forceinline__ u32 first_column() { return (blockIdx.x * gridDim.y + blockIdx.y) * columns; }

  struct Weights {
    u32 word[of_warp][4];
  };

  /// The lane's elements of a piece of the warp's columns, which begin at `row`. Behind the last column and the end of its
  /// row there are zeros.
  static __device__ __forceinline__ void load_weights(const Parameters& p, const T* row, u32 left, u32 number, Weights& to) {
    const u32 k = number * piece + threadIdx.x % 32 * elements;
    const T* at = row + k;
#pragma unroll
    for (u32 c = 0; c < of_warp; ++c, at += p.b_row) {
      if (WHOLE || (c < left && k < p.b_row)) {
        load_once(at, to.word[c]);
      } else {
        to.word[c][0] = to.word[c][1] = to.word[c][2] = to.word[c][3] = 0;
      }
    }
  }

  /// Rows of X from first_row on, `count` elements of each from k0 on, a row every `pitch` elements.
  static __device__ __forceinline__ void copy_rows(const Parameters& p, T* to, u32 first_row, u32 rows, u32 k0, u32 count,
                                                   u32 pitch) {
#pragma unroll 1
    for (u32 r = 0; r < rows; ++r) {
#pragma unroll 1
      for (u32 i = threadIdx.x * columns_at_once; i < count; i += threads * columns_at_once) {
        T x[columns_at_once];
        Rows::get(p, first_row + r, k0 + i, x);
        store(to + r * pitch + i, x);
      }
    }
  }

  /// Adds a piece's products to the sums. `x`: where the lane's elements of the piece are, of the first of `rows` rows.
  static __device__ __forceinline__ void multiply(f32 (&sum)[sums], const Weights& weights, const T* x, u32 rows,
                                                  u32 pitch) {
    const auto row_of = [&](u32 m, f32(&to)[elements]) {
      u32 word[4];
      Words<16>::get(x + (m < rows ? m : rows - 1) * pitch, word);  // those that are not there do not count
      widen_word(word, to);
    };
    // What is used again and again is widened first, as long as registers are few: of one row X, of several the weights.
    if constexpr (M == 1) {
      f32 of_row[elements];
      row_of(0, of_row);
#pragma unroll
      for (u32 c = 0; c < of_warp; ++c) {
        f32 w[elements];
        widen_word(weights.word[c], w);
#pragma unroll
        for (u32 e = 0; e < elements; ++e) sum[c] = fmaf(w[e], of_row[e], sum[c]);
      }
    } else {
      f32 w[of_warp][elements];
#pragma unroll
      for (u32 c = 0; c < of_warp; ++c) widen_word(weights.word[c], w[c]);
#pragma unroll
      for (u32 m = 0; m < M; ++m) {
        f32 of_row[elements];
        row_of(m, of_row);
#pragma unroll
        for (u32 c = 0; c < of_warp; ++c)
#pragma unroll
          for (u32 e = 0; e < elements; ++e) sum[c * M + m] = fmaf(w[c][e], of_row[e], sum[c * M + m]);
      }
    }
  }

  static __device__ __forceinline__ void run(const Parameters& p) {
    DYNAMIC_SHARED(shared);
    const bool is_cluster = gridDim.y > 1;
    u64* const sums_are_there = reinterpret_cast<u64*>(shared);
    if (is_cluster) begin_cluster_sums(sums_are_there);
    const u32 warp = threadIdx.x / 32, share = warp % SHARES;
    const u32 first_row = p.first_row + blockIdx.z * M, rows = p.m - first_row < M ? p.m - first_row : M;
    const u32 column = first_column() + warp / SHARES * of_warp, left = column < p.n ? p.n - column : 0;
    const T* const row = static_cast<const T*>(p.b) + u64(column) * p.b_row;
    // Weights are on their way before the kernel before has ended, for nobody writes them.
    Weights ring[depth];
#pragma unroll
    for (u32 d = 0; d < depth; ++d)
      if (share + d * SHARES < p.pieces) load_weights(p, row, left, share + d * SHARES, ring[d]);
    take_turn();
    typename Finish::OfBlock of_block;
    if (blockIdx.y == 0) of_block.load(p, first_row, first_row + rows);
    T* const staged = reinterpret_cast<T*>(shared + cluster_barrier_bytes);
    const u32 pitch = p.slab * piece;
    f32 sum[sums] = {};
#pragma unroll 1
    for (u32 slab = 0; slab < p.pieces; slab += p.slab) {
      const u32 end = slab + p.slab < p.pieces ? slab + p.slab : p.pieces;
      if (slab > 0) __syncthreads();
      copy_rows(p, staged, first_row, rows, slab * piece, (end - slab) * piece, pitch);
      __syncthreads();
#pragma unroll 1
      for (u32 s = slab + share; s < end; s += SHARES * depth) {
#pragma unroll
        for (u32 d = 0; d < depth; ++d) {
          const u32 here = s + d * SHARES;
          if (here >= end) continue;
          multiply(sum, ring[d], staged + (here - slab) * piece + threadIdx.x % 32 * elements, rows, pitch);
          if (here + depth * SHARES < p.pieces) load_weights(p, row, left, here + depth * SHARES, ring[d]);
        }
      }
    }
    finish(p, sum, reinterpret_cast<f32*>(staged + M * pitch), first_row, rows, of_block,
           is_cluster ? sums_are_there : nullptr);
  }

 private:
  static __device__ __forceinline__ void widen_word(const u32 (&word)[4], f32 (&to)[elements]) {
    union {
      u32 word[4];
      T element[elements];
    } both;
#pragma unroll
    for (int i = 0; i < 4; ++i) both.word[i] = word[i];
#pragma unroll
    for (u32 e = 0; e < elements; ++e) to[e] = widen(both.element[e]);
  }

  /// Of each of the sums what all lanes of the warp have: this lane gets that of number lane · sums / 32. Lanes exchange
  /// halves of what is left, so that 32 sums take 31 exchanges.
  static __device__ __forceinline__ f32 add_lanes(f32 (&sum)[sums]) {
    const u32 lane = threadIdx.x % 32;
    u32 distance = 16;
#pragma unroll
    for (u32 half = sums / 2; half > 0; half /= 2, distance /= 2) {
      const bool takes_upper = (lane & distance) != 0;
#pragma unroll
      for (u32 i = 0; i < half; ++i) {
        const f32 lower = sum[i], upper = sum[half + i];
        sum[i] = (takes_upper ? upper : lower) + __shfl_xor_sync(0xffffffffu, takes_upper ? lower : upper, distance);
      }
    }
#pragma unroll
    for (; distance > 0; distance /= 2) sum[0] += __shfl_xor_sync(0xffffffffu, sum[0], distance);
    return sum[0];
  }

  /// Adds up the warps' sums in their order, and does what comes behind: of a cluster's blocks the first one. `of_warps`:
  /// behind the rows of X, and behind it the results. `sums_are_there`: the barrier at which the first block has those of
  /// all; null without a cluster.
  static __device__ __forceinline__ void finish(const Parameters& p, f32 (&sum)[sums], f32* of_warps, u32 first_row,
                                                u32 rows, const typename Finish::OfBlock& of_block,
                                                u64* sums_are_there) {
    const bool is_cluster = sums_are_there != nullptr;
    const u32 lane = threadIdx.x % 32, all_columns = columns * gridDim.y;
    f32* const result = of_warps + WARPS * sums;  // [M][all_columns]
    const f32 own = add_lanes(sum);
    constexpr u32 lanes_a_sum = 32 / sums;
    if (lane % lanes_a_sum == 0) of_warps[threadIdx.x / 32 * sums + lane / lanes_a_sum] = own;
    __syncthreads();
#if __CUDA_ARCH__ >= 900
    if (is_cluster) {
      if (blockIdx.y == 0 && threadIdx.x == 0)
        phase_barrier_expect(sums_are_there, rows * all_columns * u32(sizeof(f32)));
      cluster_wait();  // all have begun
    }
#endif
#pragma unroll 1
    for (u32 e = threadIdx.x * 4; e < rows * columns; e += threads * 4) {
      const u32 r = e / columns, c = e % columns;  // four columns of a warp
      f32 total[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        total[i] = 0;
#pragma unroll
        for (u32 s = 0; s < SHARES; ++s) total[i] += of_warps[(c / of_warp * SHARES + s) * sums + i * M + r];
      }
      f32* const to = result + r * all_columns + blockIdx.y * columns + c;
      const float4 four = make_float4(total[0], total[1], total[2], total[3]);
#if __CUDA_ARCH__ >= 900
      if (is_cluster)
        send_to_cluster(shared_address(to), shared_address(sums_are_there), 0, four);
      else
#endif
        *reinterpret_cast<float4*>(to) = four;
    }
#if __CUDA_ARCH__ >= 900
    if (is_cluster) {
      if (blockIdx.y > 0) return;
      phase_barrier_wait(sums_are_there, 0);
    }
#endif
    of_block.put(p);
    __syncthreads();
    const u32 threads_a_row = all_columns / columns_at_once;
    const u32 r = threadIdx.x / threads_a_row, c = threadIdx.x % threads_a_row * columns_at_once;
    const u32 column = blockIdx.x * all_columns + c;
    if (r >= rows || column >= p.n) return;
    f32 v[columns_at_once];
    load(result + r * all_columns + c, v);
    finish_columns<Finish>(p, v, first_row + r, column,
                           Finish::aligned || p.n - column > columns_at_once ? columns_at_once : p.n - column);
  }
};
