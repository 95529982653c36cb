// Rows into the slots of a cache: a block moves a row.

template <class T>
__device__ __forceinline__ void store_rows(const PagedStoreParameters& p, const T* __restrict__ rows,
                                           const void* __restrict__ slots, T* cache, const Complaint& complaint) {
  for (u32 row = blockIdx.x; row < p.count; row += gridDim.x) {
    const i64 slot = taken_slot(p, slots, row, complaint);
    if (slot < 0) continue;
    for (u32 at = threadIdx.x; at < p.chunks; at += blockDim.x)
      cache[slot * p.chunks + at] = rows[i64(row) * p.chunks + at];
  }
}

#define CAMSHAFT_PAGED_STORE(bytes, T)                                                                                  \
  extern "C" __global__ void __launch_bounds__(128)                                                                     \
      store_rows_##bytes(const __grid_constant__ PagedStoreParameters p, const T* rows, const void* slots, T* cache,    \
                         Complaint complaint) {                                                                         \
    take_turn();                                                                                                        \
    store_rows(p, rows, slots, cache, complaint);                                                                       \
  }
CAMSHAFT_PAGED_STORE(1, u8)
CAMSHAFT_PAGED_STORE(2, u16)
CAMSHAFT_PAGED_STORE(4, u32)
CAMSHAFT_PAGED_STORE(8, u64)
CAMSHAFT_PAGED_STORE(16, Wide)
