// Reductions, with steps before and behind. The generated text defines Element, the type that is reduced, Wide, the one
// that it is summed in, and Rule: identity(), take(sum, element), merge(sum, sum) and finish(sum, count, 1 / count). And
// of the steps: `operands`, how many tensors what is reduced is computed from, Sources, pointers to these, Chunk<V>, V
// elements of each, fetch(sources, offset, along, chunk) and value(chunk, i); Behind, whatever the steps behind read,
// and go_on(behind, output, reduced).
//
// Lengths are cut into chunks of V elements that a thread loads at once. Long ones are cut into splits too, one for each
// blockIdx.y, whose sums reduce_finish() merges in a fixed order: what comes out does not depend on timing.

template <bool split>
__device__ __forceinline__ void give(const ReduceShape& shape, const Behind& behind, u32 output, Wide sum, Element* out,
                                     Wide* partial) {
  if (split)
    partial[u64(output) * gridDim.y + blockIdx.y] = sum;
  else
    out[output] = go_on(behind, output, Narrow<Element>::from(Rule::finish(sum, shape.count, Wide(shape.part))));
}

template <int V>
__device__ __forceinline__ void take_chunk(Wide (&sum)[V], const Chunk<V>& x) {
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = Rule::take(sum[v], widen(value(x, v)));
}

/// Chunks begin, begin + step, … of a length. Several are asked for before the first one is used.
template <int V>
__device__ __forceinline__ void take_chunks(Wide (&sum)[V], const ReduceParameters<operands>& p, const Sources& from,
                                            const i64 (&first)[operands], u32 begin, u32 end, u32 step) {
  i64 offset[operands];
  if (p.reduced.rank > 1) {
#pragma unroll 2
    for (u32 at = begin; at < end; at += step) {
#pragma unroll
      for (int k = 0; k < operands; ++k) offset[k] = first[k];
      add_offset(p.reduced, at, offset);
      Chunk<V> x;
      fetch<V>(from, offset, p.along, x);
      take_chunk<V>(sum, x);
    }
    return;
  }
  const auto take_from = [&](u32 at, Chunk<V>& to) {
#pragma unroll
    for (int k = 0; k < operands; ++k) offset[k] = first[k] + i64(at) * p.reduced.stride[k][0];
    fetch<V>(from, offset, p.along, to);
  };
  constexpr u32 together = operands == 1 ? 8 : operands == 2 ? 4 : 2;
  u32 at = begin;
  for (; at + (together - 1) * step < end; at += together * step) {
    Chunk<V> several[together];
#pragma unroll
    for (u32 i = 0; i < together; ++i) take_from(at + i * step, several[i]);
#pragma unroll
    for (u32 i = 0; i < together; ++i) take_chunk<V>(sum, several[i]);
  }
#pragma unroll 2
  for (; at < end; at += step) {
    Chunk<V> x;
    take_from(at, x);
    take_chunk<V>(sum, x);
  }
}

/// Elements of one output follow each other, or lie strided where V is 1.
template <int V, bool split>
__device__ __forceinline__ void reduce_rows(const ReduceParameters<operands>& p, const Sources& from,
                                            const Behind& behind, Element* out, Wide* partial) {
  __shared__ Wide scratch[most_warps];
  const u32 lane = threadIdx.x % p.shape.lanes;
  const u32 row = blockIdx.x * (blockDim.x / p.shape.lanes) + threadIdx.x / p.shape.lanes;
  Wide sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = Rule::identity();
  if (row < p.shape.rows) {
    i64 first[operands] = {};
    add_offset(p.kept, row, first);
    const u32 begin = blockIdx.y * p.shape.per_split;
    const u32 end = p.shape.length - begin < p.shape.per_split ? p.shape.length : begin + p.shape.per_split;
    take_chunks<V>(sum, p, from, first, begin + lane, end, p.shape.lanes);
  }
#pragma unroll
  for (int v = 1; v < V; ++v) sum[0] = Rule::merge(sum[0], sum[v]);
  const auto merge = [](Wide a, Wide b) { return Rule::merge(a, b); };
  const Wide all = combine_group(sum[0], p.shape.lanes, scratch, merge);
  if (row < p.shape.rows && lane == 0) give<split>(p.shape, behind, row, all, out, partial);
}

/// Outputs follow each other, `columns` chunks of them; `lanes` chunks are in a block, and its other threads go down the
/// length.
template <int V, bool split>
__device__ __forceinline__ void reduce_columns(const ReduceParameters<operands>& p, const Sources& from,
                                               const Behind& behind, Element* out, Wide* partial) {
  __shared__ Wide others[V][reduce_threads];
  const u32 lane = threadIdx.x % p.shape.lanes, down = threadIdx.x / p.shape.lanes,
            downs = reduce_threads / p.shape.lanes;
  const u32 group = divide(blockIdx.x, p.shape.blocks);
  const u32 column = (blockIdx.x - group * p.shape.blocks.value) * p.shape.lanes + lane;
  Wide sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = Rule::identity();
  if (column < p.shape.columns) {
    i64 first[operands];
#pragma unroll
    for (int k = 0; k < operands; ++k) first[k] = i64(column) * V * p.along[k];
    add_offset(p.kept, group, first);
    const u32 begin = blockIdx.y * p.shape.per_split;
    const u32 end = p.shape.length - begin < p.shape.per_split ? p.shape.length : begin + p.shape.per_split;
    take_chunks<V>(sum, p, from, first, begin + down, end, downs);
  }
  for (u32 half = downs / 2; half > 0; half /= 2) {
    if (down >= half && down < 2 * half) {
#pragma unroll
      for (int v = 0; v < V; ++v) others[v][threadIdx.x] = sum[v];
    }
    __syncthreads();
    if (down < half) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] = Rule::merge(sum[v], others[v][threadIdx.x + half * p.shape.lanes]);
    }
  }
  if (down == 0 && column < p.shape.columns) {
#pragma unroll
    for (int v = 0; v < V; ++v)
      give<split>(p.shape, behind, (group * p.shape.columns + column) * V + v, sum[v], out, partial);
  }
}

/// A warp for each output, of whose splits `partial` has the sums.
__device__ __forceinline__ void finish_splits(const ReduceShape& shape, u32 splits, const Wide* partial,
                                              const Behind& behind, Element* out) {
  const u32 lane = threadIdx.x % 32, output = blockIdx.x * (reduce_threads / 32) + threadIdx.x / 32;
  Wide sum = Rule::identity();
  if (output < shape.outputs)
    for (u32 at = lane; at < splits; at += 32) sum = Rule::merge(sum, partial[u64(output) * splits + at]);
  sum = combine_lanes(sum, 32, [](Wide a, Wide b) { return Rule::merge(a, b); });
  if (output < shape.outputs && lane == 0)
    out[output] = go_on(behind, output, Narrow<Element>::from(Rule::finish(sum, shape.count, Wide(shape.part))));
}
