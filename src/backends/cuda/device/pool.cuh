// Pooling over up to three axes (depth, height, width). The text before this one says what the operator fixes:
// constants kernel_…, stride_…, dilation_… of each axis and `taps` of the window; `average`; `count_padding`.

/// The taps of a window that lie inside, [first, past), and those that an average counts.
struct Taps {
  i32 start, first, past, counted;

  __device__ __forceinline__ Taps(i32 at, i32 stride, i32 dilation, i32 kernel, i32 size, i32 before, i32 after,
                                  bool with_padding) {
    start = at * stride - before;
    first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
    first = first < kernel ? first : kernel;
    past = taps_before(size, dilation, kernel);
    past = past > first ? past : first;
    counted = with_padding ? taps_before(size + after, dilation, kernel) : past - first;
  }
  __device__ __forceinline__ i32 taps_before(i32 position, i32 dilation, i32 kernel) const {
    const i32 distance = position - start;
    if (distance <= 0) return 0;
    const i32 count = (distance - 1) / dilation + 1;
    return count < kernel ? count : kernel;
  }
};

// What a maximum begins with.
__device__ __forceinline__ f32 least(f32) { return __uint_as_float(0xff800000u); }
__device__ __forceinline__ f64 least(f64) { return __longlong_as_double(i64(0xfff0000000000000ull)); }
__device__ __forceinline__ i32 least(i32) { return i32(u32(1) << 31); }
__device__ __forceinline__ i64 least(i64) { return i64(u64(1) << 63); }
__device__ __forceinline__ u64 least(u64) { return 0; }

template <class A>
__device__ __forceinline__ A pooled(A sum, A tap) {
  if (average) return sum + tap;
  return tap > sum ? tap : sum;  // NaN is passed over
}

/// What taps are pooled in. The maximum of bytes needs no 64 bits, in which it would take longer than their memory.
template <class T, bool is_sum>
struct Pooled {
  typedef decltype(widen(T{})) Type;
};
template <>
struct Pooled<i8, false> {
  typedef i32 Type;
};
template <>
struct Pooled<u8, false> {
  typedef i32 Type;
};

template <class T, int V>
__device__ __forceinline__ void pool(const PoolParameters& p, const T* __restrict__ in, T* __restrict__ out) {
  using A = typename Pooled<T, average>::Type;
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < p.chunks; at += gridDim.x * 256u) {
    const u32 pixel = divide(at, p.channels), chunk = at - pixel * p.channels.value;
    const u32 line = divide(pixel, p.width);
    const u32 plane = divide(line, p.height);
    const u32 image = divide(plane, p.depth);
    const Taps x(pixel - line * p.width.value, stride_width, dilation_width, kernel_width, p.in[2], p.before[2],
                 p.after[2], count_padding);
    const Taps y(line - plane * p.height.value, stride_height, dilation_height, kernel_height, p.in[1],
                 p.before[1], p.after[1], count_padding);
    const Taps z(plane - image * p.depth.value, stride_depth, dilation_depth, kernel_depth, p.in[0], p.before[0],
                 p.after[0], count_padding);
    A result[V];
#pragma unroll
    for (int i = 0; i < V; ++i) result[i] = average ? A(0) : least(A(0));
    const T* corner = in + image * p.image + i64(z.start) * p.plane + i64(y.start) * p.row + i64(x.start) * p.pixel +
                      i64(chunk) * V;
    const auto offset = [&](i32 d, i32 r, i32 c) {
      return i64(d * dilation_depth) * p.plane + i64(r * dilation_height) * p.row + i64(c * dilation_width) * p.pixel;
    };
    const bool any = z.past > z.first && y.past > y.first && x.past > x.first;
    if constexpr (taps <= 32) {
      // All loads of a small window are under way at once; those of taps outside are of the first one inside.
      const i64 valid = offset(z.first, y.first, x.first);
      if (any) {
#pragma unroll
        for (i32 d = 0; d < kernel_depth; ++d)
#pragma unroll
          for (i32 r = 0; r < kernel_height; ++r)
#pragma unroll
            for (i32 c = 0; c < kernel_width; ++c) {
              const bool inside =
                  d >= z.first && d < z.past && r >= y.first && r < y.past && c >= x.first && c < x.past;
              T tap[V];
              load(corner + (inside ? offset(d, r, c) : valid), tap);
#pragma unroll
              for (int i = 0; i < V; ++i) result[i] = inside ? pooled(result[i], A(widen(tap[i]))) : result[i];
            }
      }
    } else if (any) {
      for (i32 d = z.first; d < z.past; ++d)
        for (i32 r = y.first; r < y.past; ++r)
#pragma unroll 8
          for (i32 c = x.first; c < x.past; ++c) {
            T tap[V];
            load(corner + offset(d, r, c), tap);
#pragma unroll
            for (int i = 0; i < V; ++i) result[i] = pooled(result[i], A(widen(tap[i])));
          }
    }
    if (average) {
      const i64 counted = i64(z.counted) * y.counted * x.counted;
#pragma unroll
      for (int i = 0; i < V; ++i) result[i] = counted > 0 ? result[i] / A(counted) : A(0);
    }
    T narrow[V];
#pragma unroll
    for (int i = 0; i < V; ++i) narrow[i] = Narrow<T>::from(decltype(widen(T{}))(result[i]));
    store(out + i64(pixel) * p.out_pixel + i64(chunk) * V, narrow);
  }
}

/// Where the maximum of each window lies in the whole operand: of equal ones the first, a number before NaN; windows in
/// the padding alone give the first element of their plane. Channels are not last.
template <class T>
__device__ __forceinline__ void pool_indices(const PoolParameters& p, bool column_major, const T* __restrict__ in,
                                             i64* __restrict__ out) {
  using A = decltype(widen(T{}));
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < p.chunks; at += gridDim.x * 256u) {
    const u32 line = divide(at, p.width);
    const u32 plane = divide(line, p.height);
    const u32 image = divide(plane, p.depth);
    const Taps x(at - line * p.width.value, stride_width, dilation_width, kernel_width, p.in[2], p.before[2],
                 p.after[2], false);
    const Taps y(line - plane * p.height.value, stride_height, dilation_height, kernel_height, p.in[1],
                 p.before[1], p.after[1], false);
    const Taps z(plane - image * p.depth.value, stride_depth, dilation_depth, kernel_depth, p.in[0], p.before[0],
                 p.after[0], false);
    A most = A(0);
    i64 found = 0;
    bool any = false;
    for (i32 d = z.first; d < z.past; ++d)
      for (i32 r = y.first; r < y.past; ++r)
        for (i32 c = x.first; c < x.past; ++c) {
          const i64 iz = z.start + d * dilation_depth, iy = y.start + r * dilation_height,
                    ix = x.start + c * dilation_width;
          const A v = widen(in[image * p.image + iz * p.plane + iy * p.row + ix]);
          if (any && !(v > most || (most != most && v == v))) continue;
          any = true;
          most = v;
          found = column_major ? iz + p.in[0] * (iy + p.in[1] * ix) : iz * p.plane + iy * p.row + ix;
        }
    out[at] = image * p.image + found;
  }
}
