// The windows of images added up where they lie: the adjoint of taking them apart.

struct Folding {
  u32 pixels, padding;     ///< of all images
  Divisor height, width;   ///< of an image
  // along the height and the width
  i32 window_rows, window_columns, kernel_height, kernel_width, stride_height, stride_width;
  i32 dilation_height, dilation_width, top, left;
};

template <class T>
__device__ __forceinline__ void col2im(const Folding& p, const T* __restrict__ columns, T* __restrict__ out) {
  using A = decltype(widen(T{}));
  const i64 windows = i64(p.window_rows) * p.window_columns;
  for (u32 at = blockIdx.x * 256u + threadIdx.x; at < p.pixels; at += gridDim.x * 256u) {
    const u32 line = p.width.quotient(at), image = p.height.quotient(line);
    const i32 x = i32(at - line * p.width.value) + p.left, y = i32(line - image * p.height.value) + p.top;
    const T* from = columns + i64(image) * p.kernel_height * p.kernel_width * windows;
    A sum = A(0);
    for (i32 r = 0; r < p.kernel_height; ++r) {
      const i32 down = y - r * p.dilation_height, row = down / p.stride_height;
      if (down < 0 || row * p.stride_height != down || row >= p.window_rows) continue;
      for (i32 c = 0; c < p.kernel_width; ++c) {
        const i32 across = x - c * p.dilation_width, column = across / p.stride_width;
        if (across < 0 || column * p.stride_width != across || column >= p.window_columns) continue;
        sum += widen(from[(i64(r) * p.kernel_width + c) * windows + i64(row) * p.window_columns + column]);
      }
    }
    out[at] = Narrow<T>::from(sum);
  }
}
