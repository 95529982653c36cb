// The iteration of pointwise kernels over a Space.

/// The first element of chunk `at` in each operand.
template <int V, int operands>
__device__ __forceinline__ void locate(const Space<operands>& space, u32 at, i64 (&offset)[operands]) {
  for (int k = 0; k < operands; ++k) offset[k] = 0;
  u32 rest = at;
  for (u32 d = space.rank + 1; d-- > 0;) {
    const u32 quotient = d == 0 ? 0 : divide(rest, space.size[d]);
    const u32 here = rest - quotient * space.size[d].value;
    const i64 step = d == space.rank ? V : 1;
    for (int k = 0; k < operands; ++k) offset[k] += i64(here) * step * space.stride[k][d];
    rest = quotient;
  }
}

template <int V, class T>
__device__ __forceinline__ void load_chunk(const T* data, i64 offset, i64 stride, T (&to)[V]) {
  if (V > 1 && stride == 1) {
    load(data + offset, to);
  } else {
    for (int i = 0; i < V; ++i) to[i] = data[offset + i * stride];
  }
}
template <int V, class T>
__device__ __forceinline__ void store_chunk(T* data, i64 offset, i64 stride, const T (&from)[V]) {
  if (V > 1 && stride == 1) {
    store(data + offset, from);
  } else {
    for (int i = 0; i < V; ++i) data[offset + i * stride] = from[i];
  }
}
