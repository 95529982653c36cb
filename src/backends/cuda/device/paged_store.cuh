// Rows into the slots of a cache, of which the last one of a slot stays: a row is left out where a later one has its slot.
// A block moves a row. Slots beyond the cache are left out with a complaint.

template <class T>
__device__ __forceinline__ void store_rows(const PagedStoreParameters& p, const T* __restrict__ rows,
                                           const void* __restrict__ slots, T* cache, const Complaint& complaint) {
  for (u32 row = blockIdx.x; row < p.count; row += gridDim.x) {
    const i64 slot = index_at(slots, p.wide, row);
    if (slot < 0) continue;
    if (slot >= p.places) {
      if (threadIdx.x == 0) complain(complaint, slot, p.places, 0);
      continue;
    }
    // All slots behind it are looked at, though they hardly ever are the same: for 8,192 rows that is 64 KiB from the
    // second level of cache for a row of some KiB.
    bool comes_again = false;
    for (u32 later = row + 1 + threadIdx.x; later < p.count; later += blockDim.x)
      comes_again |= index_at(slots, p.wide, later) == slot;
    if (__syncthreads_or(comes_again)) continue;
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
