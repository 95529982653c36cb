// Tensors made of numbers, and running totals.

template <class T>
__device__ __forceinline__ void write_numbers(const NumbersParameters& numbers, T* out) {
  if (threadIdx.x < numbers.count) out[threadIdx.x] = Narrow<T>::from(numbers.value[threadIdx.x]);
}

// What sums of a type are computed in.
__device__ __forceinline__ f64 total_of(f32 x) { return x; }
__device__ __forceinline__ f64 total_of(f64 x) { return x; }
__device__ __forceinline__ i64 total_of(i64 x) { return x; }
__device__ __forceinline__ u64 total_of(u64 x) { return x; }

__device__ __forceinline__ f64 range_element(f64 start, f64 delta, u32 i) { return start + f64(i) * delta; }
__device__ __forceinline__ i64 range_element(i64 start, i64 delta, u32 i) {
  return i64(u64(start) + u64(i) * u64(delta));
}
__device__ __forceinline__ u64 range_element(u64 start, u64 delta, u32 i) { return start + u64(i) * delta; }

template <class T>
__device__ __forceinline__ void range(u32 count, const T* start, const T* delta, T* out) {
  const auto first = total_of(widen(*start)), step = total_of(widen(*delta));
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < count; at += gridDim.x * 256u)
    out[at] = Narrow<T>::from(range_element(first, step, at));
}

template <class A>
__device__ __forceinline__ A joined(bool product, A a, A b) {
  return product ? mul(a, b) : add(a, b);
}

/// A thread a line: for many lines, or short ones.
template <class T>
__device__ __forceinline__ void run_line(const CumulativeParameters& p, const T* in, T* out) {
  using A = decltype(total_of(widen(T{})));
  for (u32 line = blockIdx.x * 256u + threadIdx.x; line < p.lines; line += gridDim.x * 256u) {
    const u32 outer = divide(line, p.inner);
    const i64 base = i64(outer) * p.axis * p.inner.value + (line - outer * p.inner.value);
    A total = p.product ? A(1) : A(0);
    for (u32 a = 0; a < p.axis; ++a) {
      const i64 at = base + i64(p.reverse ? p.axis - 1 - a : a) * p.inner.value;
      const A before = total;
      total = joined(p.product != 0, before, total_of(widen(in[at])));
      out[at] = Narrow<T>::from(p.exclusive ? before : total);
    }
  }
}

/// A block a line, 256 elements at once.
template <class T>
__device__ __forceinline__ void scan_line(const CumulativeParameters& p, const T* in, T* out) {
  using A = decltype(total_of(widen(T{})));
  __shared__ A totals[8];  // of the warps
  const bool product = p.product != 0;
  const A nothing = product ? A(1) : A(0);
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const u32 outer = divide(blockIdx.x, p.inner);
  const i64 base = i64(outer) * p.axis * p.inner.value + (blockIdx.x - outer * p.inner.value);
  A carry = nothing;
  for (u32 first = 0; first < p.axis; first += 256) {
    const u32 a = first + threadIdx.x;
    const i64 at = base + i64(p.reverse ? p.axis - 1 - a : a) * p.inner.value;
    A sum = a < p.axis ? total_of(widen(in[at])) : nothing;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const A below = __shfl_sync(0xffffffffu, sum, lane >= distance ? lane - distance : lane);
      if (lane >= distance) sum = joined(product, below, sum);
    }
    const A below = __shfl_sync(0xffffffffu, sum, lane > 0 ? lane - 1 : 0);
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    A before = carry;
#pragma unroll
    for (u32 w = 0; w < 8; ++w) {
      if (w < warp) before = joined(product, before, totals[w]);
      carry = joined(product, carry, totals[w]);
    }
    if (a < p.axis)
      out[at] = Narrow<T>::from(!p.exclusive ? joined(product, before, sum)
                                : lane > 0   ? joined(product, before, below)
                                             : before);
    __syncthreads();
  }
}
