// What the threads of a warp or of a block find out together. Every thread gets the result, and it does not depend on
// timing. `combine` gives the same whichever of its operands comes first.

constexpr u32 full_warp = 0xffffffffu;

template <class T>
__device__ __forceinline__ T exchange(T value, u32 distance) {
  return __shfl_xor_sync(full_warp, value, distance);
}

/// Over groups of `lanes` neighbours: a power of two, up to 32. All lanes of the warp call it.
template <class T, class Combine>
__device__ __forceinline__ T combine_lanes(T value, u32 lanes, Combine combine) {
  for (u32 distance = lanes / 2; distance > 0; distance /= 2) value = combine(value, exchange(value, distance));
  return value;
}

/// Over `lanes` threads, a power of two: a part of a warp, or the whole block. `scratch` is shared: an element a warp.
template <class T, class Combine>
__device__ __forceinline__ T combine_group(T value, u32 lanes, T* scratch, Combine combine) {
  value = combine_lanes(value, lanes < 32 ? lanes : 32, combine);
  if (lanes <= 32) return value;
  __syncthreads();  // the scratch of the call before has been read
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  const u32 warps = lanes / 32;
  return combine_lanes(scratch[threadIdx.x % warps], warps, combine);
}

/// Most warps of a block that calls these.
constexpr u32 most_warps = 32;
