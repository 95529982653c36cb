// The iteration of pointwise kernels: a space of up to 8 dims, the last one cut into chunks of V elements that a thread
// computes at once. Every operand has a stride along each dim, 0 where it is broadcast.

template <int operands>
struct Space {
  u32 chunks, rank;  ///< chunks in all; dims before the last
  Divisor size[8];   ///< of the dims before the last, and then the chunks along that
  i64 stride[operands][8];

  /// The first element of chunk `at` in each operand.
  template <int V>
  __device__ __forceinline__ void locate(u32 at, i64 (&offset)[operands]) const {
    for (int k = 0; k < operands; ++k) offset[k] = 0;
    u32 rest = at;
    for (u32 d = rank + 1; d-- > 0;) {
      const u32 quotient = d == 0 ? 0 : size[d].quotient(rest);
      const u32 here = rest - quotient * size[d].value;
      const i64 step = d == rank ? V : 1;
      for (int k = 0; k < operands; ++k) offset[k] += i64(here) * step * stride[k][d];
      rest = quotient;
    }
  }
};

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
