// Walking a nest of axes from the number of an element; src/backends/cuda/tactics/axes.h has the same struct.

struct Axes {
  u32 rank;         ///< 0: one element, and a stride of 0
  Divisor size[6];  ///< outermost first
  i64 stride[6];    ///< in elements

  /// Where element `at` is, the last axis running fastest.
  __device__ __forceinline__ i64 offset(u32 at) const {
    return rank <= 1 ? i64(at) * stride[0] : walk(at);
  }
  /// The same, for places that are unrolled so often that the code should be in one place.
  __device__ __forceinline__ i64 offset_by_call(u32 at) const {
    return rank <= 1 ? i64(at) * stride[0] : called_walk(at);
  }

  __device__ __forceinline__ i64 walk(u32 at) const {
    i64 sum = 0;
#pragma unroll 1  // code that runs once takes as long as it takes to fetch
    for (u32 d = rank; d-- > 1;) {
      const u32 quotient = size[d].quotient(at);
      sum += i64(at - quotient * size[d].value) * stride[d];
      at = quotient;
    }
    return sum + i64(at) * stride[0];
  }
  __device__ __noinline__ i64 called_walk(u32 at) const { return walk(at); }
};

/// The same nest of axes walked by several operands, each with strides of its own (0 where it is broadcast); what
/// cuda/axes.h makes the bytes of.
template <int operands>
struct Nest {
  u32 rank;                  ///< 0: one element, and strides of 0
  Divisor size[6];          ///< outermost first
  i64 stride[operands][6];  ///< in elements

  /// Adds to each operand's offset where element `at` is, the last axis running fastest.
  __device__ __forceinline__ void add_offset(u32 at, i64 (&offset)[operands]) const {
#pragma unroll 1  // code that runs once takes as long as it takes to fetch
    for (u32 d = rank; d-- > 1;) {
      const u32 quotient = size[d].quotient(at);
#pragma unroll
      for (int k = 0; k < operands; ++k) offset[k] += i64(at - quotient * size[d].value) * stride[k][d];
      at = quotient;
    }
#pragma unroll
    for (int k = 0; k < operands; ++k) offset[k] += i64(at) * stride[k][0];
  }
};

/// V elements of a source whose address is aligned to them, or one that is broadcast to all of them.
template <int V, class T>
__device__ __forceinline__ void fetch_source(const T* from, i64 along, T (&to)[V]) {
  if (V == 1 || along != 0) {
    load(from, to);
  } else {
    const T one = *from;
#pragma unroll
    for (int v = 0; v < V; ++v) to[v] = one;
  }
}
