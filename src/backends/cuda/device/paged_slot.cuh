// Where rows for a cache in blocks go.

/// The slot that the whole block's row is written to; -1 where it is left out: its slot is negative, or a later row has
/// the same one, or, with a complaint, it is beyond the cache. Of one row after another: the whole block calls it.
template <class Parameters>
__device__ __forceinline__ i64 taken_slot(const Parameters& p, const void* __restrict__ slots, u32 row,
                                          const Complaint& complaint) {
  const i64 slot = index_at(slots, p.wide, row);
  if (slot < 0) return -1;
  if (slot >= p.places) {
    if (threadIdx.x == 0) complain(complaint, slot, p.places, 0);
    return -1;
  }
  // All slots behind it are looked at, though they hardly ever are the same: for 8,192 rows that is 64 KiB from the
  // second level of cache for a row of some KiB.
  bool comes_again = false;
  for (u32 later = row + 1 + threadIdx.x; later < p.count; later += blockDim.x)
    comes_again |= index_at(slots, p.wide, later) == slot;
  return __syncthreads_or(comes_again) ? -1 : slot;
}
