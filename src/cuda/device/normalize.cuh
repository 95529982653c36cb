// Layer, RMS, group and instance norm. The generated text defines Element, Wide, ScaleElement and BiasElement, and
// `centred`: whether the mean is taken out.

__device__ __forceinline__ Wide plus(Wide a, Wide b) { return a + b; }

/// y = (x - mean) · factor · scale + bias; a scale or bias that is null counts as 1 or 0.
template <int V>
__device__ __forceinline__ void finish_chunk(const Rows& shape, u32 row, u32 at, Wide (&x)[V], Wide mean, Wide factor,
                                             const ScaleElement* scale, const BiasElement* bias) {
  const u32 first = shape.parameter(row, at);
#pragma unroll
  for (int v = 0; v < V; ++v) x[v] = (x[v] - mean) * factor;
  if (scale != nullptr) {
    alignas(16) ScaleElement s[V];
    if (shape.by_run != 0) {
#pragma unroll
      for (int v = 0; v < V; ++v) s[v] = scale[first];
    } else {
      load_parameters(scale + first, s);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) x[v] *= Wide(widen(s[v]));
  }
  if (bias != nullptr) {
    alignas(16) BiasElement b[V];
    if (shape.by_run != 0) {
#pragma unroll
      for (int v = 0; v < V; ++v) b[v] = bias[first];
    } else {
      load_parameters(bias + first, b);
    }
#pragma unroll
    for (int v = 0; v < V; ++v) x[v] += Wide(widen(b[v]));
  }
}

/// Rows that fit the registers of their threads. The mean first, then the squared distances from it: they do not cancel.
template <int V, int chunks>
__device__ __forceinline__ void normalize_held(const Rows& shape, const Element* in, const ScaleElement* scale,
                                               const BiasElement* bias, Element* out) {
  __shared__ Wide scratch[most_warps];
  const u32 row = shape.row();
  const bool active = row < shape.rows;
  const i64 begin = active ? shape.begin(row) : 0;
  HeldRow<V, chunks> held;
  Wide sum = 0;
  if (active)
    held.each(shape, [&](u32 at, Wide(&x)[V]) { load_wide(in + begin + shape.offset(at), x); });
  Wide mean = 0;
  if (centred) {
    if (active)
      held.each(shape, [&](u32, Wide(&x)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum += x[v];
      });
    mean = combine_group(sum, shape.lanes, scratch, plus) / Wide(shape.length);
  }
  Wide squares = 0;
  if (active)
    held.each(shape, [&](u32, Wide(&x)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) squares += (x[v] - mean) * (x[v] - mean);
    });
  squares = combine_group(squares, shape.lanes, scratch, plus);
  const Wide factor = Wide(1) / sqrt(squares / Wide(shape.length) + Wide(shape.epsilon));
  if (active)
    held.each(shape, [&](u32 at, Wide(&x)[V]) {
      finish_chunk(shape, row, at, x, mean, factor, scale, bias);
      store_wide(out + begin + shape.offset(at), x);
    });
}

/// Rows of any length: read three times.
template <int V>
__device__ __forceinline__ void normalize_long(const Rows& shape, const Element* in, const ScaleElement* scale,
                                               const BiasElement* bias, Element* out) {
  __shared__ Wide scratch[most_warps];
  const u32 row = shape.row();
  const bool active = row < shape.rows;
  const i64 begin = active ? shape.begin(row) : 0;
  Wide mean = 0;
  if (centred) {
    Wide sum[V] = {};
    if (active)
      each_chunk<V>(shape, in + begin, [&](u32, const Wide(&x)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum[v] += x[v];
      });
#pragma unroll
    for (int v = 1; v < V; ++v) sum[0] += sum[v];
    mean = combine_group(sum[0], shape.lanes, scratch, plus) / Wide(shape.length);
  }
  Wide squares[V] = {};
  if (active)
    each_chunk<V>(shape, in + begin, [&](u32, const Wide(&x)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) squares[v] += (x[v] - mean) * (x[v] - mean);
    });
#pragma unroll
  for (int v = 1; v < V; ++v) squares[0] += squares[v];
  const Wide total = combine_group(squares[0], shape.lanes, scratch, plus);
  const Wide factor = Wide(1) / sqrt(total / Wide(shape.length) + Wide(shape.epsilon));
  if (active)
    each_chunk<V>(shape, in + begin, [&](u32 at, Wide(&x)[V]) {
      finish_chunk(shape, row, at, x, mean, factor, scale, bias);
      store_wide(out + begin + shape.offset(at), x);
    });
}
