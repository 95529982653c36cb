// Rows by the matrices that they choose (ops::GatherMatMul): a block takes ROWS neighbouring rows and a stretch of columns,
// its threads along the columns CHUNK of them each. Others than these take every so many-th term of the sums, which are added
// up at the end: how, is a matter of the matrices' sizes alone. Neighbours with one matrix, as tokens of a prompt have, read
// it once. A row without a matrix is zeros.

constexpr u32 gather_threads = 256;

template <class X, class W, int CHUNK, int ROWS>
struct GatherMatMul {
  const GatherMatMulParameters& p;
  const X* x;
  const void* indices;
  const W* w;
  X* y;
  u32 column, share, shares;

  __device__ __forceinline__ i64 index_of(u32 row) const {
    const i64 index = p.wide ? static_cast<const i64*>(indices)[row] : i64(static_cast<const i32*>(indices)[row]);
    return index >= 0 && index < p.matrices ? index : -1;
  }

  /// Of `COUNT` rows with one matrix.
  template <int COUNT>
  __device__ __forceinline__ void add_up(u32 row, i64 index, f32 (&sum)[COUNT][CHUNK]) const {
    const W* const from = w + index * p.in * p.out + column;
    const X* const of_rows = x + i64(row) * p.in;
#pragma unroll 4
    for (u32 k = share; k < p.in; k += shares) {
      W weights[CHUNK];
      load(from + i64(k) * p.out, weights);
#pragma unroll
      for (int r = 0; r < COUNT; ++r) {
        const f32 element = widen(of_rows[i64(r) * p.in + k]);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) sum[r][i] = fmaf(element, widen(weights[i]), sum[r][i]);
      }
    }
  }

  /// What all shares have, in those of share 0. All threads of the block call it.
  __device__ __forceinline__ void combine(f32 (&sum)[CHUNK], f32* shared) const {
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) shared[i * gather_threads + threadIdx.x] = sum[i];
    for (u32 half = shares / 2; half > 0; half /= 2) {
      __syncthreads();
      if (share >= half) continue;
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) {
        sum[i] += shared[i * gather_threads + threadIdx.x + half * p.across];
        shared[i * gather_threads + threadIdx.x] = sum[i];
      }
    }
    __syncthreads();
  }

  template <int COUNT>
  __device__ __forceinline__ void compute(u32 row, i64 index, f32* shared) const {
    const bool is_there = column < p.out;
    f32 sum[COUNT][CHUNK] = {};
    if (is_there && index >= 0) add_up(row, index, sum);
#pragma unroll
    for (int r = 0; r < COUNT; ++r) {
      if (index >= 0 && shares > 1) combine(sum[r], shared);
      if (share > 0 || !is_there) continue;
      X results[CHUNK];
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) results[i] = Narrow<X>::from(sum[r][i]);
      store(y + (i64(row) + r) * p.out + column, results);
    }
  }
};

template <class X, class W, int CHUNK, int ROWS>
__device__ __forceinline__ void gather_matmul(const GatherMatMulParameters& p, const X* __restrict__ x,
                                              const void* __restrict__ indices, const W* __restrict__ w,
                                              X* __restrict__ y) {
  __shared__ f32 shared[CHUNK * gather_threads];
  const u32 across = threadIdx.x & (p.across - 1), groups = (p.rows + ROWS - 1) / ROWS;
  for (u32 item = blockIdx.x; item < groups * p.stretches; item += gridDim.x) {
    const u32 group = item / p.stretches, row = group * ROWS;
    const u32 column = ((item - group * p.stretches) * p.across + across) * CHUNK;
    const GatherMatMul<X, W, CHUNK, ROWS> product{p, x, indices, w, y, column, threadIdx.x / p.across,
                                                  gather_threads / p.across};
    const u32 count = p.rows - row < ROWS ? p.rows - row : ROWS;
    const i64 index = product.index_of(row);
    bool is_one = count == ROWS;
    for (u32 r = 1; r < count; ++r) is_one = is_one && product.index_of(row + r) == index;
    if (is_one) {
      product.template compute<ROWS>(row, index, shared);
    } else {
      for (u32 r = 0; r < count; ++r) product.template compute<1>(row + r, product.index_of(row + r), shared);
    }
  }
}
