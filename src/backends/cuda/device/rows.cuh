// Rows that a group of threads goes through, in chunks of V elements. The generated text defines Element, and Wide, the
// type that it is computed in, and rows_are_dense: each has one run of elements, behind the row before, and of norms a
// parameter for each of these.

/// 1 / sqrt(variance + epsilon)
template <class T>
__device__ __forceinline__ T norm_factor(const RowParameters& shape, T variance) {
  const T bounded = variance < T(shape.least) ? T(shape.least) : variance;  // NaN stays
  return T(1) / sqrt(bounded + T(shape.epsilon));
}

/// The row of this thread, and its place among those of the row. Lanes are a power of two: a division by a number that only
/// running tells is some twenty instructions.
__device__ __forceinline__ u32 row_of(const RowParameters& shape) {
  const u32 shift = shape.lanes_shift;
  return blockIdx.x * (blockDim.x >> shift) + (threadIdx.x >> shift);
}
__device__ __forceinline__ u32 lane_of(const RowParameters& shape) { return threadIdx.x & (shape.lanes - 1); }
__device__ __forceinline__ i64 begin_of(const RowParameters& shape, u32 row) {
  if (rows_are_dense) return i64(row) * shape.length;
  const u32 group = divide(row, shape.groups);
  return i64(group) * shape.outer + i64(row - group * shape.groups.value) * shape.inner;
}
/// Element `at` of a row, as seen from its beginning.
__device__ __forceinline__ i64 offset_of(const RowParameters& shape, u32 at) {
  if (rows_are_dense || shape.run.value == shape.length) return at;
  const u32 quotient = divide(at, shape.run);
  return i64(quotient) * shape.pitch + (at - quotient * shape.run.value);
}
/// Which of the scales and biases element `at` of the row has.
__device__ __forceinline__ u32 parameter_of(const RowParameters& shape, u32 row, u32 at) {
  if (rows_are_dense) return at;
  const u32 quotient = divide(at, shape.run), group = divide(row, shape.groups);
  return (row - group * shape.groups.value) * shape.width +
         (shape.by_run != 0 ? quotient : at - quotient * shape.run.value);
}

/// A row in registers: chunks of this thread.
template <int V, int chunks, class T>
struct HeldRow {
  alignas(16) T x[chunks][V];

  /// f(first element, number of the chunk, chunk)
  template <class F>
  __device__ __forceinline__ void each(const RowParameters& shape, F f) {
    const u32 lane = lane_of(shape);
#pragma unroll
    for (int c = 0; c < chunks; ++c) {
      const u32 at = (lane + u32(c) * shape.lanes) * V;
      if (at < shape.length) f(at, c, x[c]);
    }
  }
};

template <int V>
__device__ __forceinline__ void load_wide(const Element* from, Wide (&to)[V]) {
  alignas(16) Element x[V];
  load(from, x);
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = widen(x[v]);
}
template <int V>
__device__ __forceinline__ void store_wide(Element* to, const Wide (&from)[V]) {
  alignas(16) Element x[V];
#pragma unroll
  for (int v = 0; v < V; ++v) x[v] = Narrow<Element>::from(from[v]);
  store(to, x);
}

/// V elements of any type, at most 16 bytes by one access, to which `from` is aligned.
template <int V, class T>
__device__ __forceinline__ void load_parameters(const T* from, T (&to)[V]) {
  constexpr int piece = V * sizeof(T) > 16 ? 16 / sizeof(T) : V;
#pragma unroll
  for (int v = 0; v < V; v += piece) load(from + v, reinterpret_cast<T(&)[piece]>(to[v]));
}

/// A row in memory: f(at, its chunk) for each of this thread's chunks.
template <int V, class F>
__device__ __forceinline__ void each_chunk(const RowParameters& shape, const Element* first, F f) {
#pragma unroll 2
  for (u32 at = lane_of(shape) * V; at < shape.length; at += shape.lanes * V) {
    Wide x[V];
    load_wide(first + offset_of(shape, at), x);
    f(at, x);
  }
}
