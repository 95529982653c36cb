// Writing elements to positions that are data. Of several updates of one position the last one holds, however threads
// run: a first kernel finds the last update of each position, and a second one moves those. Updates whose index is out
// of range are left out, with a complaint.

/// For each slice one more than the number of its last update; 0 to begin with.
__device__ __forceinline__ void find_last_slices(const SlicesParameters& slices, u32 count,
                                                 const void* __restrict__ indices, u32* last,
                                                 const Complaint& complaint) {
  for (u32 i = blockIdx.x * 256u + threadIdx.x; i < count; i += gridDim.x * 256u) {
    const i64 slice = slice_of(slices, indices, i, complaint);
    if (slice >= 0) atomicMax(last + slice, i + 1);
  }
}

template <class T>
__device__ __forceinline__ void scatter_slices(const SlicesParameters& slices, const void* __restrict__ indices,
                                               const u32* __restrict__ last, const T* __restrict__ updates, T* out) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < slices.chunks; at += gridDim.x * 256u) {
    const u32 i = divide(at, slices.inner), column = at - i * slices.inner.value;
    const i64 slice = slice_of(slices, indices, i, Complaint{});
    if (slice >= 0 && last[slice] == i + 1) out[slice * slices.inner.value + column] = updates[at];
  }
}

/// Where update number `at` goes; -1 where its index is out of range.
__device__ __forceinline__ i64 target_of(const ElementsParameters& elements, const void* indices, u32 at,
                                         const Complaint& complaint) {
  const i64 index = checked_index(index_at(indices, elements.wide, at), elements.limit, elements.axis, complaint);
  return index < 0 ? -1 : offset_of(elements, at, index);
}

__device__ __forceinline__ void find_last_elements(const ElementsParameters& elements, const void* __restrict__ indices,
                                                   u32* last, const Complaint& complaint) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < elements.chunks; at += gridDim.x * 256u) {
    const i64 target = target_of(elements, indices, at, complaint);
    if (target >= 0) atomicMax(last + target, at + 1);
  }
}

template <class T>
__device__ __forceinline__ void scatter_elements(const ElementsParameters& elements, const void* __restrict__ indices,
                                                 const u32* __restrict__ last, const T* __restrict__ updates, T* out) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < elements.chunks; at += gridDim.x * 256u) {
    const i64 target = target_of(elements, indices, at, Complaint{});
    if (target >= 0 && last[target] == at + 1) out[target] = updates[at];
  }
}

__device__ __forceinline__ void clear(u32 count, u32* numbers) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < count; at += gridDim.x * 256u) numbers[at] = 0;
}

extern "C" __global__ void __launch_bounds__(256) clear_all(u32 count, u32* numbers) {
  take_turn();
  clear(count, numbers);
}
extern "C" __global__ void __launch_bounds__(256)
    find_last_slices_any(const __grid_constant__ SlicesParameters slices, u32 count, const void* indices, u32* last,
                         Complaint complaint) {
  take_turn();
  find_last_slices(slices, count, indices, last, complaint);
}
extern "C" __global__ void __launch_bounds__(256)
    find_last_elements_any(const __grid_constant__ ElementsParameters elements, const void* indices, u32* last,
                           Complaint complaint) {
  take_turn();
  find_last_elements(elements, indices, last, complaint);
}

#define CAMSHAFT_SCATTER(bytes, T)                                                                                  \
  extern "C" __global__ void __launch_bounds__(256)                                                                 \
      scatter_slices_##bytes(const __grid_constant__ SlicesParameters slices, const void* indices, const u32* last, \
                             const T* updates, T* out) {                                                            \
    take_turn();                                                                                                    \
    scatter_slices(slices, indices, last, updates, out);                                                            \
  }                                                                                                                 \
  extern "C" __global__ void __launch_bounds__(256)                                                                 \
      scatter_elements_##bytes(const __grid_constant__ ElementsParameters elements, const void* indices,            \
                               const u32* last, const T* updates, T* out) {                                         \
    take_turn();                                                                                                    \
    scatter_elements(elements, indices, last, updates, out);                                                        \
  }
CAMSHAFT_SCATTER(1, u8)
CAMSHAFT_SCATTER(2, u16)
CAMSHAFT_SCATTER(4, u32)
CAMSHAFT_SCATTER(8, u64)
CAMSHAFT_SCATTER(16, Wide)
