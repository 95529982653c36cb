// The first k of each line in order, by bitonic sorts of chunks in shared memory. A key is smaller the earlier its
// element comes: the value's order above, and the index below it, so that no two are equal.

/// The reals' order as that of numbers without sign: -0 is 0, NaN above everything.
__device__ __forceinline__ u32 order_of(f32 x) {
  const u32 bits = __float_as_uint(x + 0.0f);
  return x != x ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ u32 order_of(i64 x) { return u32(x) ^ 0x80000000u; }
__device__ __forceinline__ u32 order_of(u64 x) { return u32(x); }

/// Sorts `count` keys, a power of two, with steps of sizes from `first` to `last`; `at` is their place in what is
/// sorted as a whole.
__device__ __forceinline__ void sort_keys(u64* keys, u32 count, u32 first, u32 last, u32 at) {
  for (u32 size = first; size <= last; size *= 2)
    for (u32 stride = (size < count ? size : count) / 2; stride > 0; stride /= 2) {
      for (u32 i = threadIdx.x; i < count / 2; i += 256) {
        const u32 low = 2 * i - (i & (stride - 1));
        const u64 a = keys[low], b = keys[low + stride];
        if ((a > b) == (((at + low) & size) == 0)) {
          keys[low] = b;
          keys[low + stride] = a;
        }
      }
      __syncthreads();
    }
}

template <class T>
__device__ __forceinline__ void write_selected(const TopKParameters& p, u32 line, u32 rank, u64 key, const T* x,
                                               T* values, i64* indices) {
  const u32 outer = divide(line, p.inner), column = line - outer * p.inner.value;
  const u32 index = u32(key);
  const i64 to = (i64(outer) * p.k + rank) * p.inner.value + column;
  if (values) values[to] = x[(i64(outer) * p.axis + index) * p.inner.value + column];
  if (indices) indices[to] = index;
}

template <class T>
__device__ __forceinline__ void select_chunk(const TopKParameters& p, const T* x, const u64* in, u64* out, T* values,
                                             i64* indices) {
  __shared__ u64 keys[chunk_keys];
  const u32 line = divide(blockIdx.x, p.chunks), chunk = blockIdx.x - line * p.chunks.value;
  const u32 begin = chunk * chunk_keys;
  u32 size = chunk_keys;  // the power of two that holds the whole line
  while (p.chunks.value == 1 && !p.alternating && size / 2 >= p.count && size > 2) size /= 2;
  const u32 outer = divide(line, p.inner), column = line - outer * p.inner.value;
  for (u32 i = threadIdx.x; i < size; i += 256) {
    const u32 at = begin + i;
    u64 key = ~u64(0);
    if (at < p.count) {
      if (p.first) {
        const u32 order = order_of(widen(x[(i64(outer) * p.axis + at) * p.inner.value + column]));
        key = u64(p.largest ? ~order : order) << 32 | at;
      } else {
        key = in[i64(line) * p.count + at];
      }
    }
    keys[i] = key;
  }
  __syncthreads();
  sort_keys(keys, size, 2, size, p.alternating ? begin : 0);
  for (u32 i = threadIdx.x; i < size && i < p.keep; i += 256) {
    if (p.last) {
      if (i < p.k) write_selected(p, line, i, keys[i], x, values, indices);
    } else {
      out[(i64(line) * p.chunks.value + chunk) * p.keep + i] = keys[i];
    }
  }
}

// ---- whole lines, for a k that is no small part of them: chunks are merged by pairs, then by fours …

/// One step between keys that are `stride` apart, at least chunk_keys.
__device__ __forceinline__ void merge_far(const TopKMergeParameters& p, u64* keys) {
  for (u32 i = blockIdx.x * 256u + threadIdx.x; i < p.pairs; i += gridDim.x * 256u) {
    const u32 low = 2 * i - (i & (p.stride - 1));
    const u64 a = keys[low], b = keys[i64(low) + p.stride];
    if ((a > b) == ((low & (p.line_keys - 1) & p.size) == 0)) {
      keys[low] = b;
      keys[i64(low) + p.stride] = a;
    }
  }
}

/// All steps within chunks; the last time the results are written.
template <class T>
__device__ __forceinline__ void merge_near(const TopKParameters& p, u32 size, u64* all, const T* x, T* values,
                                           i64* indices) {
  __shared__ u64 keys[chunk_keys];
  const u32 line = divide(blockIdx.x, p.chunks), chunk = blockIdx.x - line * p.chunks.value;
  const u32 begin = chunk * chunk_keys;
  u64* from = all + i64(blockIdx.x) * chunk_keys;
  for (u32 i = threadIdx.x; i < chunk_keys; i += 256) keys[i] = from[i];
  __syncthreads();
  sort_keys(keys, chunk_keys, size, size, begin);
  for (u32 i = threadIdx.x; i < chunk_keys; i += 256) {
    if (!p.last) {
      from[i] = keys[i];
    } else if (begin + i < p.k) {
      write_selected(p, line, begin + i, keys[i], x, values, indices);
    }
  }
}
