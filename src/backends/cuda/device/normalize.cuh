// Layer, RMS, group and instance norm. The generated text defines Element, Wide, ScaleElement and BiasElement, and
// `centred`: whether the mean is taken out; parameters_are_constant: no kernel writes scales and biases; Steps, StepElement
// and give(), what becomes of V elements of a result.

__device__ __forceinline__ Wide plus(Wide a, Wide b) { return a + b; }

/// The scales or biases of a chunk, as they are stored.
template <int V, class T>
__device__ __forceinline__ void load_chunk_parameters(const RowParameters& shape, u32 row, u32 at, const T* from,
                                                      T (&to)[V]) {
  from += parameter_of(shape, row, at);
  if (shape.by_run == 0) {
    load_parameters(from, to);
    return;
  }
#pragma unroll
  for (int v = 0; v < V; ++v) to[v] = *from;
}

__device__ __forceinline__ f32 multiply_add(f32 a, f32 b, f32 c) { return fmaf(a, b, c); }
__device__ __forceinline__ f64 multiply_add(f64 a, f64 b, f64 c) { return fma(a, b, c); }

/// y = (x - mean) · factor · scale + bias; a scale or bias that is null counts as 1 or 0, and is not looked at.
template <int V>
__device__ __forceinline__ void finish_chunk(Wide (&x)[V], Wide mean, Wide factor, bool has_scale,
                                             const ScaleElement (&scale)[V], bool has_bias,
                                             const BiasElement (&bias)[V]) {
#pragma unroll
  for (int v = 0; v < V; ++v)
    x[v] = multiply_add((x[v] - mean) * factor, has_scale ? Wide(widen(scale[v])) : Wide(1),
                        has_bias ? Wide(widen(bias[v])) : Wide(0));
}

/// Rows that fit the registers of their threads. The mean first, then the squared distances from it: they do not cancel.
template <int V, int chunks>
__device__ __forceinline__ void normalize_held(const RowParameters& shape, const Element* in, const ScaleElement* scale,
                                               const BiasElement* bias, Element* out, const Steps<StepElement>& steps) {
  __shared__ Wide scratch[most_warps];
  const u32 row = row_of(shape);
  const bool active = row < shape.rows;
  const i64 begin = active ? begin_of(shape, row) : 0;
  HeldRow<V, chunks, Element> held;  // as it is stored: narrow elements take half the registers
  // Scales and biases that no kernel writes are asked for before the turn, where registers hold them: else they come half a
  // microsecond behind the row's figures. Of few rows they are asked for at once in any case; of many, more are under way
  // together where these take no registers meanwhile.
  constexpr bool is_held = parameters_are_constant && chunks * V * (sizeof(ScaleElement) + sizeof(BiasElement)) <= 128;
  constexpr bool is_early = chunks == 1 || is_held;
  alignas(16) ScaleElement scales[is_early ? chunks : 1][V];
  alignas(16) BiasElement biases[is_early ? chunks : 1][V];
  const auto load_scales = [&](u32 at, int c) {
    if (scale != nullptr) load_chunk_parameters(shape, row, at, scale, scales[is_early ? c : 0]);
    if (bias != nullptr) load_chunk_parameters(shape, row, at, bias, biases[is_early ? c : 0]);
  };
  if (!parameters_are_constant) take_turn();
  if (is_early && active) held.each(shape, [&](u32 at, int c, const Element(&)[V]) { load_scales(at, c); });
  if (parameters_are_constant) take_turn();
  Wide sum = 0;
  if (active) held.each(shape, [&](u32 at, int, Element(&x)[V]) { load(in + begin + offset_of(shape, at), x); });
  Wide mean = 0;
  if (centred) {
    if (active)
      held.each(shape, [&](u32, int, const Element(&x)[V]) {
#pragma unroll
        for (int v = 0; v < V; ++v) sum += widen(x[v]);
      });
    mean = combine_group(sum, shape.lanes, scratch, plus) * Wide(shape.part);
  }
  Wide squares = 0;
  if (active)
    held.each(shape, [&](u32, int, const Element(&x)[V]) {
#pragma unroll
      for (int v = 0; v < V; ++v) squares = multiply_add(widen(x[v]) - mean, widen(x[v]) - mean, squares);
    });
  squares = combine_group(squares, shape.lanes, scratch, plus);
  const Wide factor = norm_factor(shape, squares * Wide(shape.part));
  if (active)
    held.each(shape, [&](u32 at, int c, const Element(&x)[V]) {
      Wide y[V];
      if (!is_early) load_scales(at, c);
      const int own = is_early ? c : 0;
#pragma unroll
      for (int v = 0; v < V; ++v) y[v] = widen(x[v]);
      finish_chunk(y, mean, factor, scale != nullptr, scales[own], bias != nullptr, biases[own]);
      give(out, steps, begin + offset_of(shape, at), at, y);
    });
}

/// Rows of any length: read three times.
template <int V>
__device__ __forceinline__ void normalize_long(const RowParameters& shape, const Element* in, const ScaleElement* scale,
                                               const BiasElement* bias, Element* out, const Steps<StepElement>& steps) {
  __shared__ Wide scratch[most_warps];
  take_turn();
  const u32 row = row_of(shape);
  const bool active = row < shape.rows;
  const i64 begin = active ? begin_of(shape, row) : 0;
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
    mean = combine_group(sum[0], shape.lanes, scratch, plus) * Wide(shape.part);
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
  const Wide factor = norm_factor(shape, total * Wide(shape.part));
  if (active)
    each_chunk<V>(shape, in + begin, [&](u32 at, Wide(&x)[V]) {
      alignas(16) ScaleElement s[V];
      alignas(16) BiasElement b[V];
      if (scale != nullptr) load_chunk_parameters(shape, row, at, scale, s);
      if (bias != nullptr) load_chunk_parameters(shape, row, at, bias, b);
      finish_chunk(x, mean, factor, scale != nullptr, s, bias != nullptr, b);
      give(out, steps, begin + offset_of(shape, at), at, x);
    });
}
