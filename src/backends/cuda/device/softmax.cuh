// Softmax and its logarithm. The generated text defines Element, Wide and `logarithm`.

/// The largest of some numbers, and the sum of the exponentials of their distances from it.
struct Total {
  Wide largest, sum;
};

__device__ __forceinline__ Total exchange(const Total& total, u32 distance) {
  return {exchange(total.largest, distance), exchange(total.sum, distance)};
}

__device__ __forceinline__ Wide infinity() { return Wide(__uint_as_float(0x7f800000u)); }

// Of equal infinities the difference would be NaN; finish() has the last word on them.
__device__ __forceinline__ Wide exp_of_distance(Wide x, Wide largest) { return x == largest ? Wide(1) : exp(x - largest); }

// NaN is not taken as the largest, but it makes the sum NaN.
__device__ __forceinline__ Total merge(const Total& a, const Total& b) {
  const Wide largest = a.largest > b.largest ? a.largest : b.largest;
  // Where nothing was seen the sum is 0, and stays it.
  return {largest, a.sum * exp_of_distance(a.largest, largest) + b.sum * exp_of_distance(b.largest, largest)};
}

template <int V>
__device__ __forceinline__ void take(Total& total, const Wide (&x)[V]) {
  Wide largest = total.largest;
#pragma unroll
  for (int v = 0; v < V; ++v) largest = x[v] > largest ? x[v] : largest;
  total.sum *= exp_of_distance(total.largest, largest);
  total.largest = largest;
#pragma unroll
  for (int v = 0; v < V; ++v) total.sum += exp_of_distance(x[v], largest);
}

/// What a row's elements are made results with.
struct Softmax {
  Wide largest, figure;  ///< 1 / sum, or the logarithm of the sum

  // The logarithm in two steps: the sum of both would lose digits of the smaller one.
  __device__ __forceinline__ Wide of(Wide x) const {
    return logarithm ? (x - largest) - figure : exp(x - largest) * figure;
  }
};

__device__ __forceinline__ Softmax finish(const Total& total) {
  // Infinity less infinity is NaN: a row whose largest element is infinite has no softmax.
  const Wide sum = isinf(total.largest) ? total.largest - total.largest : total.sum;
  return {total.largest, logarithm ? log(sum) : Wide(1) / sum};
}

/// Rows that fit the registers of their threads.
template <int V, int chunks>
__device__ __forceinline__ void softmax_held(const RowParameters& shape, const Element* in, Element* out) {
  take_turn();
  __shared__ Wide scratch[most_warps];
  const u32 row = row_of(shape);
  const bool active = row < shape.rows;
  const i64 begin = active ? begin_of(shape, row) : 0;
  HeldRow<V, chunks, Wide> held;
  Wide largest = -infinity();
  if (active)
    held.each(shape, [&](u32 at, int, Wide(&x)[V]) {
      load_wide(in + begin + offset_of(shape, at), x);
#pragma unroll
      for (int v = 0; v < V; ++v) largest = x[v] > largest ? x[v] : largest;
    });
  largest = combine_group(largest, shape.lanes, scratch, [](Wide a, Wide b) { return a > b ? a : b; });
  Wide sum = 0;
  if (active)
    held.each(shape, [&](u32, int, Wide(&x)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        x[v] -= largest;
        const Wide e = exp(x[v]);
        sum += e;
        if (!logarithm) x[v] = e;
      }
    });
  sum = combine_group(sum, shape.lanes, scratch, [](Wide a, Wide b) { return a + b; });
  const Wide figure = logarithm ? log(sum) : Wide(1) / sum;
  if (active)
    held.each(shape, [&](u32 at, int, Wide(&x)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) x[v] = logarithm ? x[v] - figure : x[v] * figure;
      store_wide(out + begin + offset_of(shape, at), x);
    });
}

/// Rows of any length: read twice.
template <int V>
__device__ __forceinline__ void softmax_long(const RowParameters& shape, const Element* in, Element* out) {
  take_turn();
  __shared__ Total scratch[most_warps];
  const u32 row = row_of(shape);
  const bool active = row < shape.rows;
  const i64 begin = active ? begin_of(shape, row) : 0;
  Total total = {-infinity(), Wide(0)};
  if (active) each_chunk<V>(shape, in + begin, [&](u32, const Wide(&x)[V]) { take(total, x); });
  total = combine_group(total, shape.lanes, scratch, [](const Total& a, const Total& b) { return merge(a, b); });
  const Softmax softmax = finish(total);
  if (active)
    each_chunk<V>(shape, in + begin, [&](u32 at, Wide(&x)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) x[v] = softmax.of(x[v]);
      store_wide(out + begin + offset_of(shape, at), x);
    });
}

template <int V>
__device__ __forceinline__ void softmax_columns(const SoftmaxColumnsParameters& shape, const Element* in,
                                                Element* out) {
  take_turn();
  __shared__ Total others[V][row_threads];
  const u32 lane = threadIdx.x % shape.lanes, down = threadIdx.x / shape.lanes, downs = blockDim.x / shape.lanes;
  const u32 column = blockIdx.x * shape.lanes + lane;
  const bool active = column < shape.columns;
  const u32 group = divide(column, shape.inner);
  const i64 step = i64(shape.inner.value) * V;
  const i64 begin = i64(group) * shape.length * step + i64(column - group * shape.inner.value) * V;
  Total total[V];
#pragma unroll
  for (int v = 0; v < V; ++v) total[v] = {-infinity(), Wide(0)};
  if (active)
    for (u32 at = down; at < shape.length; at += downs) {
      Wide x[V];
      load_wide(in + begin + at * step, x);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Wide one[1] = {x[v]};
        take(total[v], one);
      }
    }
  if (downs > 1) {
#pragma unroll
    for (int v = 0; v < V; ++v) others[v][threadIdx.x] = total[v];
    __syncthreads();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      total[v] = others[v][lane];
      for (u32 d = 1; d < downs; ++d) total[v] = merge(total[v], others[v][d * shape.lanes + lane]);
    }
  }
  if (!active) return;
  Softmax softmax[V];
#pragma unroll
  for (int v = 0; v < V; ++v) softmax[v] = finish(total[v]);
  for (u32 at = down; at < shape.length; at += downs) {
    Wide x[V];
    load_wide(in + begin + at * step, x);
#pragma unroll
    for (int v = 0; v < V; ++v) x[v] = softmax[v].of(x[v]);
    store_wide(out + begin + at * step, x);
  }
}
