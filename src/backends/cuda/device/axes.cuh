// Walking a nest of axes from the number of an element.

__device__ __forceinline__ i64 walk(const Axes& axes, u32 at) {
  i64 sum = 0;
#pragma unroll 1  // code that runs once takes as long as it takes to fetch
  for (u32 d = axes.rank; d-- > 1;) {
    const u32 quotient = divide(at, axes.size[d]);
    sum += i64(at - quotient * axes.size[d].value) * axes.stride[d];
    at = quotient;
  }
  return sum + i64(at) * axes.stride[0];
}
__device__ __noinline__ i64 called_walk(const Axes& axes, u32 at) { return walk(axes, at); }

/// Where element `at` is, the last axis running fastest.
__device__ __forceinline__ i64 offset_of(const Axes& axes, u32 at) {
  return axes.rank <= 1 ? i64(at) * axes.stride[0] : walk(axes, at);
}
/// The same, for places that are unrolled so often that the code should be in one place.
__device__ __forceinline__ i64 offset_by_call(const Axes& axes, u32 at) {
  return axes.rank <= 1 ? i64(at) * axes.stride[0] : called_walk(axes, at);
}

/// Adds to each operand's offset where element `at` is, the last axis running fastest.
template <int operands>
__device__ __forceinline__ void add_offset(const Nest<operands>& nest, u32 at, i64 (&offset)[operands]) {
#pragma unroll 1  // code that runs once takes as long as it takes to fetch
  for (u32 d = nest.rank; d-- > 1;) {
    const u32 quotient = divide(at, nest.size[d]);
#pragma unroll
    for (int k = 0; k < operands; ++k) offset[k] += i64(at - quotient * nest.size[d].value) * nest.stride[k][d];
    at = quotient;
  }
#pragma unroll
  for (int k = 0; k < operands; ++k) offset[k] += i64(at) * nest.stride[k][0];
}

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
