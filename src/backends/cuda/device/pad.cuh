// Results whose every element is one of the operand's, or a constant: found along each axis by itself.

/// An element of the operand, or `fill` where there is none, V at once.
template <class T, int V>
__device__ __forceinline__ void put(bool inside, const T* from, const T* fill, T* to) {
  T chunk[V];
  if (inside) {
    load(from, chunk);
  } else {
    const T value = fill ? *fill : T{};
#pragma unroll
    for (int i = 0; i < V; ++i) chunk[i] = value;
  }
  store(to, chunk);
}

/// Only in constant mode are there elements outside of the operand on the last axis when V is not 1.
template <class T, int V>
__device__ __forceinline__ void pad(const PadParameters& p, const T* __restrict__ in, const T* __restrict__ value,
                                    T* __restrict__ out) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < p.chunks; at += gridDim.x * 256u) {
    i64 offset = 0;
    bool inside = true;
    u32 rest = at;
    for (u32 d = p.rank; d-- > 0;) {
      const u32 quotient = divide(rest, p.size[d]);
      i64 here = i64(rest - quotient * p.size[d].value) - p.before[d];
      const i64 n = p.length[d];
      if (here < 0 || here >= n) {
        if (p.mode == PaddingMode::constant) {
          inside = false;
        } else if (p.mode == PaddingMode::edge) {
          here = here < 0 ? 0 : n - 1;
        } else if (p.mode == PaddingMode::wrap) {
          here %= n;
          if (here < 0) here += n;
        } else if (n == 1) {
          here = 0;
        } else {
          const i64 period = 2 * (n - 1);
          here %= period;
          if (here < 0) here += period;
          if (here >= n) here = period - here;
        }
      }
      offset += here * p.stride[d];
      rest = quotient;
    }
    put<T, V>(inside, in + offset, value, out + i64(at) * V);
  }
}

template <class T, int V>
__device__ __forceinline__ void copy_mapped(const MappedCopyParameters& m, const T* __restrict__ in,
                                            const T* __restrict__ value, T* __restrict__ out) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < m.chunks; at += gridDim.x * 256u) {
    i64 from = 0, to = 0;
    bool inside = true;
    u32 rest = at;
    for (u32 d = m.rank; d-- > 0;) {
      const u32 quotient = divide(rest, m.size[d]);
      const u32 here = rest - quotient * m.size[d].value;
      const i64 source = m.table[d] ? i64(m.table[d][here]) : i64(here);
      inside = inside && source >= 0;
      from += source * m.in[d];
      to += here * m.out[d];
      rest = quotient;
    }
    put<T, V>(inside, in + from, value, out + to);
  }
}

template <class T, int V>
__device__ __forceinline__ void index_map(const IndexMapParameters& m, const T* __restrict__ in,
                                          const T* __restrict__ value, T* __restrict__ out) {
  for (u32 chunk = blockIdx.x * 256u + threadIdx.x; chunk < m.chunks; chunk += gridDim.x * 256u) {
    i64 from = 0, to = 0, at[8];
    bool inside = true;
    u32 rest = chunk;
    for (u32 e = 0; e < m.left; ++e) at[e] = m.start[e];
    for (u32 d = m.rank; d-- > 0;) {
      const u32 quotient = divide(rest, m.size[d]);
      const u32 here = rest - quotient * m.size[d].value;
      to += here * m.out[d];
      if (m.along[d] < m.left)
        at[m.along[d]] += here * m.step[d];
      else
        from += here * m.in[d];
      rest = quotient;
    }
    for (u32 e = 0; e < m.left; ++e) {
      i64 index = at[e];
      const i64 n = m.length[e];
      if (m.wraps) {
        index %= n;
        if (index < 0) index += n;
      }
      inside = inside && index >= 0 && index < n;
      from += index * m.stride[e];
    }
    put<T, V>(inside, in + from, value, out + to);
  }
}
