// Copies of elements between strided tensors. Elements are of any type of their width.

/// An element a thread, in the order of the result.
template <class T>
__device__ __forceinline__ void copy_elements(const Space<2>& space, const T* __restrict__ in, T* __restrict__ out) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < space.chunks; at += gridDim.x * 256u) {
    i64 offset[2];
    locate<1>(space, at, offset);
    out[offset[1]] = in[offset[0]];
  }
}

/// 16 bytes a thread, of elements that lie side by side in the result: copies of one element (stride 0), or neighbours
/// that begin anywhere.
template <class T>
__device__ __forceinline__ void gather_elements_16(const Space<2>& space, const T* __restrict__ in,
                                                   T* __restrict__ out) {
  constexpr int count = 16 / int(sizeof(T));
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < space.chunks; at += gridDim.x * 256u) {
    i64 offset[2];
    locate<count>(space, at, offset);
    const i64 stride = space.stride[0][space.rank];
    T chunk[count];
#pragma unroll
    for (int i = 0; i < count; ++i) chunk[i] = in[offset[0] + i * stride];
    store(out + offset[1], chunk);
  }
}

// ---- transposes through shared memory: neighbours in the operand (dim a) are far apart in the result, and the other
// way round (dim b). A block moves a square of both; the other dims are counted by `outer`.

/// Elements are moved V at once where V · sizeof(T) is 4 bytes: then both sizes and all strides are multiples of V, and
/// pointers are aligned to that.
template <class T, int V>
__device__ __forceinline__ void transpose_tile(const TransposeParameters& tiles, const T* __restrict__ in,
                                               T* __restrict__ out) {
  constexpr u32 edge = sizeof(T) < 4 ? 64 : 32;
  constexpr u32 across = edge / V, lines = 256 / across;
  // A row of the square and 4 bytes: then the elements of a column lie in different banks.
  constexpr u32 pitch = edge + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
  __shared__ __align__(16) T square[edge * pitch];
  u32 rest = divide(blockIdx.x, tiles.tiles_a);
  const u32 a0 = (blockIdx.x - rest * tiles.tiles_a.value) * edge;
  const u32 above = divide(rest, tiles.tiles_b);
  const u32 b0 = (rest - above * tiles.tiles_b.value) * edge;
  rest = above;
  for (u32 d = tiles.rank; d-- > 0;) {
    const u32 quotient = divide(rest, tiles.size[d]);
    const u32 here = rest - quotient * tiles.size[d].value;
    in += here * tiles.in[d];
    out += here * tiles.out[d];
    rest = quotient;
  }
  const u32 x = threadIdx.x % across * V, y = threadIdx.x / across;
  T chunks[edge / lines][V];  // all loads before the first store: they wait for memory together
#pragma unroll
  for (u32 line = 0; line < edge; line += lines)
    if (a0 + x < tiles.size_a && b0 + line + y < tiles.size_b)
      load(in + (a0 + x) + i64(b0 + line + y) * tiles.in_b, chunks[line / lines]);
#pragma unroll
  for (u32 line = 0; line < edge; line += lines)
    if (a0 + x < tiles.size_a && b0 + line + y < tiles.size_b) {
#pragma unroll
      for (int i = 0; i < V; ++i) square[(line + y) * pitch + x + i] = chunks[line / lines][i];
    }
  __syncthreads();
#pragma unroll
  for (u32 line = 0; line < edge; line += lines) {
    const u32 a = line + y;
    if (a0 + a < tiles.size_a && b0 + x < tiles.size_b) {
      T chunk[V];
#pragma unroll
      for (int i = 0; i < V; ++i) chunk[i] = square[(x + i) * pitch + a];
      store(out + i64(a0 + a) * tiles.out_a + (b0 + x), chunk);
    }
  }
}

#define CAMSHAFT_COPY(bytes, T)                                                              \
  extern "C" __global__ void __launch_bounds__(256)                                          \
      copy_##bytes(const __grid_constant__ Space<2> space, const T* in, T* out) {            \
    take_turn();                                                                             \
    copy_elements(space, in, out);                                                           \
  }                                                                                          \
  extern "C" __global__ void __launch_bounds__(256)                                          \
      tile_##bytes(const __grid_constant__ TransposeParameters tiles, const T* in, T* out) { \
    take_turn();                                                                             \
    transpose_tile<T, 1>(tiles, in, out);                                                    \
  }
#define CAMSHAFT_NARROW_COPY(bytes, T)                                              \
  extern "C" __global__ void __launch_bounds__(256)                                 \
      gather_##bytes(const __grid_constant__ Space<2> space, const T* in, T* out) { \
    take_turn();                                                                    \
    gather_elements_16(space, in, out);                                             \
  }
#define CAMSHAFT_PACKED_TILE(bytes, T)                                                              \
  extern "C" __global__ void __launch_bounds__(256)                                                 \
      packed_tile_##bytes(const __grid_constant__ TransposeParameters tiles, const T* in, T* out) { \
    take_turn();                                                                                    \
    transpose_tile<T, 4 / bytes>(tiles, in, out);                                                   \
  }
CAMSHAFT_COPY(1, u8)
CAMSHAFT_COPY(2, u16)
CAMSHAFT_COPY(4, u32)
CAMSHAFT_COPY(8, u64)
CAMSHAFT_COPY(16, Wide)
CAMSHAFT_NARROW_COPY(1, u8)
CAMSHAFT_NARROW_COPY(2, u16)
CAMSHAFT_NARROW_COPY(4, u32)
CAMSHAFT_NARROW_COPY(8, u64)
CAMSHAFT_PACKED_TILE(1, u8)
CAMSHAFT_PACKED_TILE(2, u16)
