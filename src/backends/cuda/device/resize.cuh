// Interpolation along one to three axes at once: each output mixes the elements that tables name, axis by axis.

template <class T, int V, class A>
struct Mixer {
  A sum[V];

  __device__ __forceinline__ void add(A weight, const T* from) {
    T chunk[V];
    load(from, chunk);
#pragma unroll
    for (int i = 0; i < V; ++i) sum[i] += weight * A(widen(chunk[i]));
  }
};

template <class T, int V, int resized>
__device__ __forceinline__ void interpolate(const ResizeParameters& p, const T* __restrict__ in,
                                            T* __restrict__ out) {
  using A = decltype(widen(T{}));
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < p.chunks; at += gridDim.x * 256u) {
    i64 from = 0, to = 0;
    u32 here[8];
    u32 rest = at;
#pragma unroll
    for (int d = 8; d-- > 0;) {
      if (u32(d) >= p.rank) continue;
      const u32 quotient = divide(rest, p.size[d]);
      here[d] = rest - quotient * p.size[d].value;
      from += here[d] * p.in[d];  // 0 along resized axes
      to += here[d] * p.out[d];
      rest = quotient;
    }
    Mixer<T, V, A> mixed = {};
    u32 first[resized];  // in the tables
#pragma unroll
    for (int r = 0; r < resized; ++r) {
      u32 coordinate = 0;
#pragma unroll
      for (int d = 0; d < 8; ++d)
        if (u32(d) == p.axis[r]) coordinate = here[d];
      first[r] = coordinate * p.taps[r];
    }
    for (u32 a = 0; a < p.taps[0]; ++a) {
      const i32 i0 = p.index[0][first[0] + a];
      const f32 w0 = p.weight[0][first[0] + a];
      if (w0 == 0) continue;
      for (u32 b = 0; b < (resized > 1 ? p.taps[1] : 1); ++b) {
        const i32 i1 = resized > 1 ? p.index[1][first[resized > 1] + b] : 0;
        const f32 w1 = resized > 1 ? p.weight[1][first[resized > 1] + b] : 1;
        if (w1 == 0) continue;
        for (u32 c = 0; c < (resized > 2 ? p.taps[2] : 1); ++c) {
          const i32 i2 = resized > 2 ? p.index[2][first[resized - 1] + c] : 0;
          const f32 w2 = resized > 2 ? p.weight[2][first[resized - 1] + c] : 1;
          if (w2 == 0) continue;
          const A weight = A(w0) * A(w1) * A(w2);
          if (i0 < 0 || i1 < 0 || i2 < 0) {
#pragma unroll
            for (int i = 0; i < V; ++i) mixed.sum[i] += weight * A(p.outside);
            continue;
          }
          mixed.add(weight, in + from + i64(i0) * p.stride[0] + i64(i1) * p.stride[1] + i64(i2) * p.stride[2]);
        }
      }
    }
    T chunk[V];
#pragma unroll
    for (int i = 0; i < V; ++i) chunk[i] = Narrow<T>::from(mixed.sum[i]);
    store(out + to, chunk);
  }
}
