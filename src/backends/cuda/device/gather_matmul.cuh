// Rows by the matrices that they choose (ops::GatherMatMul): a block takes a row and a stretch of columns, its threads
// along the columns CHUNK of them each. Others than these take every so many-th term of the sums, which are added up at the
// end: how, is a matter of the matrices' sizes alone. A row without a matrix is zeros.

constexpr u32 gather_threads = 256;

template <class X, class W, int CHUNK>
__device__ __forceinline__ void gather_matmul(const GatherMatMulParameters& p, const X* __restrict__ x,
                                              const void* __restrict__ indices, const W* __restrict__ w,
                                              X* __restrict__ y) {
  __shared__ f32 sums[CHUNK * gather_threads];
  const u32 across = threadIdx.x & (p.across - 1), share = threadIdx.x / p.across, shares = gather_threads / p.across;
  for (u32 item = blockIdx.x; item < p.rows * p.stretches; item += gridDim.x) {
    const u32 row = item / p.stretches, column = ((item - row * p.stretches) * p.across + across) * CHUNK;
    const i64 index = p.wide ? static_cast<const i64*>(indices)[row] : i64(static_cast<const i32*>(indices)[row]);
    const bool is_there = column < p.out, is_chosen = index >= 0 && index < p.matrices;
    f32 sum[CHUNK] = {};
    if (is_there && is_chosen) {
      const W* const from = w + index * p.in * p.out + column;
      const X* const of_row = x + i64(row) * p.in;
#pragma unroll 4
      for (u32 k = share; k < p.in; k += shares) {
        W weights[CHUNK];
        load(from + i64(k) * p.out, weights);
        const f32 element = widen(of_row[k]);
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) sum[i] = fmaf(element, widen(weights[i]), sum[i]);
      }
    }
    if (is_chosen && shares > 1) {
#pragma unroll
      for (int i = 0; i < CHUNK; ++i) sums[i * gather_threads + threadIdx.x] = sum[i];
      for (u32 half = shares / 2; half > 0; half /= 2) {
        __syncthreads();
        if (share >= half) continue;
#pragma unroll
        for (int i = 0; i < CHUNK; ++i) {
          sum[i] += sums[i * gather_threads + threadIdx.x + half * p.across];
          sums[i * gather_threads + threadIdx.x] = sum[i];
        }
      }
      __syncthreads();
    }
    if (share > 0 || !is_there) continue;
    X results[CHUNK];
#pragma unroll
    for (int i = 0; i < CHUNK; ++i) results[i] = Narrow<X>::from(sum[i]);
    store(y + i64(row) * p.out + column, results);
  }
}
