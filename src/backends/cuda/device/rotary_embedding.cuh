// Rotary position embeddings of rows that are read through strides.

template <class T, class A>
__device__ __forceinline__ void rotate(const RotaryParameters& r, const T* __restrict__ x,
                                       const A* __restrict__ cosines, const A* __restrict__ sines, T* __restrict__ y) {
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < r.items; at += gridDim.x * 256u) {
    const u32 row = divide(at, r.row), item = at - row * r.row.value;
    const T* from = x;
    const A *cosine = cosines, *sine = sines;
    u32 rest = row;
    for (u32 d = r.rank; d-- > 0;) {
      const u32 quotient = divide(rest, r.size[d]);
      const i64 here = i64(rest - quotient * r.size[d].value);
      from += here * r.stride[d];
      cosine += here * r.cosine.stride[d];
      sine += here * r.sine.stride[d];
      rest = quotient;
    }
    T* to = y + i64(row) * r.pitch;
    if (item >= r.pairs) {
      to[r.pairs + item] = from[r.pairs + item];
      continue;
    }
    cosine += i64(item) * r.cosine.pair;
    sine += i64(item) * r.sine.pair;
    const u32 first = item * r.step, second = first + r.distance;
    const f32 a = widen(from[first]), b = widen(from[second]);
    to[first] = Narrow<T>::from(a * widen(cosine[0]) - b * widen(sine[0]));
    to[second] = Narrow<T>::from(b * widen(cosine[r.cosine.second]) + a * widen(sine[r.sine.second]));
  }
}
