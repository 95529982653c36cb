// Reading elements at positions that are data. An index that is out of range gives zeros and a complaint.

template <class T>
__device__ __forceinline__ void gather_rows(const GatherRowsParameters& rows, const T* __restrict__ in,
                                            const void* __restrict__ indices, T* __restrict__ out,
                                            const Complaint& complaint) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < rows.chunks; at += gridDim.x * 256u) {
    const u32 row = divide(at, rows.inner), column = at - row * rows.inner.value;
    const u32 outer = divide(row, rows.count), k = row - outer * rows.count.value;
    const i64 index = checked_index(index_at(indices, rows.wide, k), rows.size, rows.axis, complaint);
    T value = {};
    if (index >= 0) value = in[(outer * rows.size + index) * rows.inner.value + column];
    out[at] = value;
  }
}

/// Where element number `at` is in the operand, along whose axis it is element `index`.
__device__ __forceinline__ i64 offset_of(const ElementsParameters& elements, u32 at, i64 index) {
  i64 offset = 0;
  u32 rest = at;
  for (u32 d = elements.rank; d-- > 0;) {
    const u32 quotient = divide(rest, elements.size[d]);
    const u32 here = rest - quotient * elements.size[d].value;
    offset += (d == elements.axis ? index : i64(here)) * elements.stride[d];
    rest = quotient;
  }
  return offset;
}

template <class T>
__device__ __forceinline__ void gather_elements(const ElementsParameters& elements, const T* __restrict__ in,
                                                const void* __restrict__ indices, T* __restrict__ out,
                                                const Complaint& complaint) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < elements.chunks; at += gridDim.x * 256u) {
    const i64 index = checked_index(index_at(indices, elements.wide, at), elements.limit, elements.axis, complaint);
    const i64 offset = offset_of(elements, at, index);
    T value = {};
    if (index >= 0) value = in[offset];
    out[at] = value;
  }
}

/// The slice, counted over all batches, that index number `at` names; -1 when that is out of range.
__device__ __forceinline__ i64 slice_of(const SlicesParameters& slices, const void* indices, u32 at,
                                        const Complaint& complaint) {
  i64 slice = 0;
  bool inside = true;
  for (u32 a = 0; a < slices.depth; ++a) {
    const i64 index = checked_index(index_at(indices, slices.wide, i64(at) * slices.depth + a), slices.size[a],
                                    slices.first_axis + a, complaint);
    inside = inside && index >= 0;
    slice = slice * slices.size[a] + index;
  }
  return inside ? divide(at, slices.a_batch) * slices.slices + slice : -1;
}

template <class T>
__device__ __forceinline__ void gather_slices(const SlicesParameters& slices, const T* __restrict__ in,
                                              const void* __restrict__ indices, T* __restrict__ out,
                                              const Complaint& complaint) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < slices.chunks; at += gridDim.x * 256u) {
    const u32 i = divide(at, slices.inner), column = at - i * slices.inner.value;
    const i64 slice = slice_of(slices, indices, i, complaint);
    T value = {};
    if (slice >= 0) value = in[slice * slices.inner.value + column];
    out[at] = value;
  }
}
