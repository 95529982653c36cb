// Rows that a group of threads goes through, in chunks of V elements. The generated text defines Element, and Wide, the
// type that it is computed in.

struct Rows {
  u32 rows, length;  ///< length in elements
  u32 lanes;         ///< threads of a row
  u32 width;         ///< parameters of a group of them; see parameter()
  Divisor groups;    ///< rows that begin `inner` from each other, the next such group `outer` from it
  Divisor run;       ///< elements that follow each other; the next run begins `pitch` elements behind
  u32 by_run;        ///< whether each run has one parameter; else each element of a run
  i64 outer, inner, pitch;
  f64 epsilon, part; ///< of normalisations; 1 / length
  f64 least;         ///< of the mean square

  /// 1 / sqrt(variance + epsilon)
  template <class T>
  __device__ __forceinline__ T norm_factor(T variance) const {
    const T bounded = variance < T(least) ? T(least) : variance;  // NaN stays
    return T(1) / sqrt(bounded + T(epsilon));
  }

  __device__ __forceinline__ u32 row() const {
    return blockIdx.x * (blockDim.x / lanes) + threadIdx.x / lanes;
  }
  __device__ __forceinline__ i64 begin(u32 row) const {
    const u32 group = groups.quotient(row);
    return i64(group) * outer + i64(row - group * groups.value) * inner;
  }
  /// Element `at` of a row, as seen from its beginning.
  __device__ __forceinline__ i64 offset(u32 at) const {
    if (run.value == length) return at;
    const u32 quotient = run.quotient(at);
    return i64(quotient) * pitch + (at - quotient * run.value);
  }
  /// Which of the scales and biases element `at` of the row has.
  __device__ __forceinline__ u32 parameter(u32 row, u32 at) const {
    const u32 quotient = run.quotient(at), group = groups.quotient(row);
    return (row - group * groups.value) * width + (by_run != 0 ? quotient : at - quotient * run.value);
  }
};

/// A row in registers: chunks of this thread.
template <int V, int chunks, class T>
struct HeldRow {
  alignas(16) T x[chunks][V];

  /// f(first element, number of the chunk, chunk)
  template <class F>
  __device__ __forceinline__ void each(const Rows& shape, F f) {
    const u32 lane = threadIdx.x % shape.lanes;
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
__device__ __forceinline__ void each_chunk(const Rows& shape, const Element* first, F f) {
#pragma unroll 2
  for (u32 at = threadIdx.x % shape.lanes * V; at < shape.length; at += shape.lanes * V) {
    Wide x[V];
    load_wide(first + shape.offset(at), x);
    f(at, x);
  }
}
