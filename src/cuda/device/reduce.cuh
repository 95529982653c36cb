// Reductions. The generated text defines Element, the type that they are summed in, Wide, and Rule: identity(),
// take(sum, element), merge(sum, sum) and finish(sum, count, 1 / count).
//
// Lengths are cut into chunks of V elements that a thread loads at once. Long ones are cut into splits too, one for each
// blockIdx.y, whose sums reduce_finish() merges in a fixed order: what comes out does not depend on timing.

struct Reduction {
  u32 outputs;    ///< in all
  u32 rows;       ///< of reduce_rows: outputs; of reduce_columns: groups of neighbouring outputs
  u32 length;     ///< chunks to reduce for each of reduce_rows, elements for each of reduce_columns
  u32 per_split;  ///< of the length
  u32 lanes;      ///< of reduce_rows: threads of a row; of reduce_columns: chunks beside each other in a block
  u32 columns;    ///< chunks in a group of neighbours
  Divisor blocks; ///< of reduce_columns: blocks beside each other
  i64 count;      ///< elements of each result
  f64 part;       ///< 1 / count
  Axes kept;      ///< from the number of a row to its first element
  Axes reduced;   ///< from the position along the length to the distance from there
};

template <bool split>
__device__ __forceinline__ void give(const Reduction& shape, u32 output, Wide sum, Element* out, Wide* partial) {
  if (split)
    partial[u64(output) * gridDim.y + blockIdx.y] = sum;
  else
    out[output] = Narrow<Element>::from(Rule::finish(sum, shape.count, Wide(shape.part)));
}

template <int V>
__device__ __forceinline__ void take_chunk(Wide (&sum)[V], const Element (&x)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = Rule::take(sum[v], widen(x[v]));
}

/// Chunks begin, begin + step, … of a length. Several are asked for before the first one is used.
template <int V>
__device__ __forceinline__ void take_chunks(Wide (&sum)[V], const Axes& axes, const Element* first, u32 begin, u32 end,
                                            u32 step) {
  alignas(16) Element x[V];
  if (axes.rank > 1) {
#pragma unroll 2
    for (u32 at = begin; at < end; at += step) {
      load(first + axes.walk(at), x);
      take_chunk<V>(sum, x);
    }
    return;
  }
  constexpr u32 together = 8;
  const i64 stride = axes.stride[0];
  u32 at = begin;
  for (; at + (together - 1) * step < end; at += together * step) {
    alignas(16) Element several[together][V];
#pragma unroll
    for (u32 i = 0; i < together; ++i) load(first + i64(at + i * step) * stride, several[i]);
#pragma unroll
    for (u32 i = 0; i < together; ++i) take_chunk<V>(sum, several[i]);
  }
#pragma unroll 2
  for (; at < end; at += step) {
    load(first + i64(at) * stride, x);
    take_chunk<V>(sum, x);
  }
}

/// Elements of one output follow each other, or lie strided where V is 1.
template <int V, bool split>
__device__ __forceinline__ void reduce_rows(const Reduction& shape, const Element* in, Element* out, Wide* partial) {
  __shared__ Wide scratch[most_warps];
  const u32 lane = threadIdx.x % shape.lanes;
  const u32 row = blockIdx.x * (blockDim.x / shape.lanes) + threadIdx.x / shape.lanes;
  Wide sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = Rule::identity();
  if (row < shape.rows) {
    const Element* first = in + shape.kept.offset(row);
    const u32 begin = blockIdx.y * shape.per_split;
    const u32 end = shape.length - begin < shape.per_split ? shape.length : begin + shape.per_split;
    take_chunks<V>(sum, shape.reduced, first, begin + lane, end, shape.lanes);
  }
#pragma unroll
  for (int v = 1; v < V; ++v) sum[0] = Rule::merge(sum[0], sum[v]);
  const auto merge = [](Wide a, Wide b) { return Rule::merge(a, b); };
  const Wide all = combine_group(sum[0], shape.lanes, scratch, merge);
  if (row < shape.rows && lane == 0) give<split>(shape, row, all, out, partial);
}

/// Outputs follow each other, `columns` chunks of them; `lanes` chunks are in a block, and its other threads go down the
/// length.
template <int V, bool split>
__device__ __forceinline__ void reduce_columns(const Reduction& shape, const Element* in, Element* out, Wide* partial) {
  __shared__ Wide others[V][reduce_threads];
  const u32 lane = threadIdx.x % shape.lanes, down = threadIdx.x / shape.lanes, downs = reduce_threads / shape.lanes;
  const u32 group = shape.blocks.quotient(blockIdx.x);
  const u32 column = (blockIdx.x - group * shape.blocks.value) * shape.lanes + lane;
  Wide sum[V];
#pragma unroll
  for (int v = 0; v < V; ++v) sum[v] = Rule::identity();
  if (column < shape.columns) {
    const Element* first = in + shape.kept.offset(group) + i64(column) * V;
    const u32 begin = blockIdx.y * shape.per_split;
    const u32 end = shape.length - begin < shape.per_split ? shape.length : begin + shape.per_split;
    take_chunks<V>(sum, shape.reduced, first, begin + down, end, downs);
  }
  for (u32 half = downs / 2; half > 0; half /= 2) {
    if (down >= half && down < 2 * half) {
#pragma unroll
      for (int v = 0; v < V; ++v) others[v][threadIdx.x] = sum[v];
    }
    __syncthreads();
    if (down < half) {
#pragma unroll
      for (int v = 0; v < V; ++v) sum[v] = Rule::merge(sum[v], others[v][threadIdx.x + half * shape.lanes]);
    }
  }
  if (down == 0 && column < shape.columns) {
#pragma unroll
    for (int v = 0; v < V; ++v)
      give<split>(shape, (group * shape.columns + column) * V + v, sum[v], out, partial);
  }
}

/// A warp for each output, of whose splits `partial` has the sums.
__device__ __forceinline__ void finish_splits(u32 outputs, u32 splits, i64 count, f64 part, const Wide* partial, Element* out) {
  const u32 lane = threadIdx.x % 32, output = blockIdx.x * (reduce_threads / 32) + threadIdx.x / 32;
  Wide sum = Rule::identity();
  if (output < outputs)
    for (u32 at = lane; at < splits; at += 32) sum = Rule::merge(sum, partial[u64(output) * splits + at]);
  sum = combine_lanes(sum, 32, [](Wide a, Wide b) { return Rule::merge(a, b); });
  if (output < outputs && lane == 0) out[output] = Narrow<Element>::from(Rule::finish(sum, count, Wide(part)));
}
