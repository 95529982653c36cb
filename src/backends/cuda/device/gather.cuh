// Reading elements at positions that are data. An index that is out of range gives zeros and a complaint.

/// out[o, k, :] = in[o, indices[k], :]
struct Rows {
  u32 chunks, wide;      ///< chunks of the result; whether indices are i64
  Divisor inner, count;  ///< chunks of a row; indices
  i64 size;              ///< rows of the operand, for each o
  u32 axis, padding;
};

template <class T>
__device__ __forceinline__ void gather_rows(const Rows& rows, const T* __restrict__ in,
                                            const void* __restrict__ indices, T* __restrict__ out,
                                            const Complaint& complaint) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < rows.chunks; at += gridDim.x * 256u) {
    const u32 row = rows.inner.quotient(at), column = at - row * rows.inner.value;
    const u32 outer = rows.count.quotient(row), k = row - outer * rows.count.value;
    const i64 index = checked_index(index_at(indices, rows.wide, k), rows.size, rows.axis, complaint);
    T value = {};
    if (index >= 0) value = in[(outer * rows.size + index) * rows.inner.value + column];
    out[at] = value;
  }
}

/// out[p] = in[p with its coordinate along an axis replaced by indices[p]]
struct Elements {
  u32 chunks, rank, axis, wide;
  Divisor size[8];  ///< of the indices
  i64 stride[8];    ///< of the operand
  i64 limit;        ///< size of the operand's axis
};

/// Where element number `at` is in the operand, along whose axis it is element `index`.
__device__ __forceinline__ i64 offset_of(const Elements& elements, u32 at, i64 index) {
  i64 offset = 0;
  u32 rest = at;
  for (u32 d = elements.rank; d-- > 0;) {
    const u32 quotient = elements.size[d].quotient(rest);
    const u32 here = rest - quotient * elements.size[d].value;
    offset += (d == elements.axis ? index : i64(here)) * elements.stride[d];
    rest = quotient;
  }
  return offset;
}

template <class T>
__device__ __forceinline__ void gather_elements(const Elements& elements, const T* __restrict__ in,
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

/// Slices that `depth` numbers name, in each of some batches of them.
struct Slices {
  u32 chunks, wide, depth, first_axis;
  Divisor inner, a_batch;  ///< chunks of a slice; indices of a batch
  i64 size[8];             ///< of the axes that are named
  i64 slices;              ///< of a batch
};

/// The slice, counted over all batches, that index number `at` names; -1 when that is out of range.
__device__ __forceinline__ i64 slice_of(const Slices& slices, const void* indices, u32 at,
                                        const Complaint& complaint) {
  i64 slice = 0;
  bool inside = true;
  for (u32 a = 0; a < slices.depth; ++a) {
    const i64 index = checked_index(index_at(indices, slices.wide, i64(at) * slices.depth + a), slices.size[a],
                                    slices.first_axis + a, complaint);
    inside = inside && index >= 0;
    slice = slice * slices.size[a] + index;
  }
  return inside ? slices.a_batch.quotient(at) * slices.slices + slice : -1;
}

template <class T>
__device__ __forceinline__ void gather_slices(const Slices& slices, const T* __restrict__ in,
                                              const void* __restrict__ indices, T* __restrict__ out,
                                              const Complaint& complaint) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < slices.chunks; at += gridDim.x * 256u) {
    const u32 i = slices.inner.quotient(at), column = at - i * slices.inner.value;
    const i64 slice = slice_of(slices, indices, i, complaint);
    T value = {};
    if (slice >= 0) value = in[slice * slices.inner.value + column];
    out[at] = value;
  }
}
