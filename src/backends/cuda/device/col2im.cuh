// The windows of images added up where they lie: the adjoint of taking them apart.

template <class T>
__device__ __forceinline__ void col2im(const Col2ImParameters& p, const T* __restrict__ columns, T* __restrict__ out) {
  using A = decltype(widen(T{}));
  const i64 windows = i64(p.windows[0]) * p.windows[1];
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < p.pixels; at += gridDim.x * 256u) {
    const u32 line = divide(at, p.width), image = divide(line, p.height);
    const i32 x = i32(at - line * p.width.value) + p.before[1], y = i32(line - image * p.height.value) + p.before[0];
    const T* from = columns + i64(image) * p.kernel[0] * p.kernel[1] * windows;
    A sum = A(0);
    for (i32 r = 0; r < p.kernel[0]; ++r) {
      const i32 down = y - r * p.dilation[0], row = down / p.stride[0];
      if (down < 0 || row * p.stride[0] != down || row >= p.windows[0]) continue;
      for (i32 c = 0; c < p.kernel[1]; ++c) {
        const i32 across = x - c * p.dilation[1], column = across / p.stride[1];
        if (across < 0 || column * p.stride[1] != across || column >= p.windows[1]) continue;
        sum += widen(from[(i64(r) * p.kernel[1] + c) * windows + i64(row) * p.windows[1] + column]);
      }
    }
    out[at] = Narrow<T>::from(sum);
  }
}
