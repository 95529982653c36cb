// Indices of the largest or smallest elements along an axis. The generated text defines Element, Wide, `largest` and
// `select_last`. As NumPy has it: the first NaN counts as the extreme; ties go to the first element, or to the last.

struct Extreme {
  Wide value;
  u32 index;  ///< past all of them where there is no element yet
};

__device__ __forceinline__ Extreme exchange(const Extreme& e, u32 distance) {
  return {exchange(e.value, distance), exchange(e.index, distance)};
}

constexpr u32 no_index = 0xffffffffu;

__device__ __forceinline__ Extreme better(const Extreme& a, const Extreme& b) {
  if (a.index == no_index) return b;
  if (b.index == no_index) return a;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value, a_is_first = a.index < b.index;
  if (a_is_nan || b_is_nan) return a_is_nan && (!b_is_nan || a_is_first) ? a : b;
  if (a.value == b.value) return a_is_first != select_last ? a : b;
  return (a.value > b.value) == largest ? a : b;
}

// Of a row that several blocks share, each leaves what it found in `partial`: merge_extremes() does the rest.
__device__ __forceinline__ void arg_extreme(const ArgReduceParameters& shape, const Element* in, i64* out,
                                            Extreme* partial) {
  __shared__ Extreme scratch[most_warps];
  const u32 lane = threadIdx.x % shape.lanes;
  const u32 row = blockIdx.x * (blockDim.x / shape.lanes) + threadIdx.x / shape.lanes;
  Extreme best = {Wide(0), no_index};
  if (row < shape.rows) {
    const u32 group = divide(row, shape.inner), inner = shape.inner.value;
    const Element* first = in + (u64(group) * shape.length * inner + (row - group * inner));
    const auto take = [&](Element x, u32 at) { best = better(best, {widen(x), at}); };
    // Sixteen are asked for before the first one is looked at: a row of 128,256 that a block had alone took 60 us by fours,
    // and 27 so; several blocks share it.
    constexpr u32 together = 16;
    const u32 end = shape.length - blockIdx.y * shape.part > shape.part ? (blockIdx.y + 1) * shape.part : shape.length;
    for (u32 at = blockIdx.y * shape.part + lane; at < end; at += together * shape.lanes) {
      Element several[together];
      const u32 left = (end - at + shape.lanes - 1) / shape.lanes;
#pragma unroll
      for (u32 i = 0; i < together; ++i)
        if (i < left) several[i] = first[u64(at + i * shape.lanes) * inner];
#pragma unroll
      for (u32 i = 0; i < together; ++i)
        if (i < left) take(several[i], at + i * shape.lanes);
    }
  }
  best = combine_group(best, shape.lanes, scratch, [](const Extreme& a, const Extreme& b) { return better(a, b); });
  if (row >= shape.rows || lane != 0) return;
  if (shape.splits == 1)
    out[row] = i64(best.index);
  else
    partial[u64(row) * shape.splits + blockIdx.y] = best;
}

/// A warp a row.
__device__ __forceinline__ void merge_extremes(const ArgReduceParameters& shape, const Extreme* partial, i64* out) {
  __shared__ Extreme scratch[most_warps];
  const u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  Extreme best = {Wide(0), no_index};
  if (row < shape.rows)
    for (u32 s = lane; s < shape.splits; s += 32) best = better(best, partial[u64(row) * shape.splits + s]);
  best = combine_group(best, 32, scratch, [](const Extreme& a, const Extreme& b) { return better(a, b); });
  if (row < shape.rows && lane == 0) out[row] = i64(best.index);
}
