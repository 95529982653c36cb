// Convolutions of one channel a group, channels last. The text before this one says what the operator fixes: constants
// kernel_height, kernel_width, stride_…, dilation_…. What comes after the sum is Finish, on 8 channels of a pixel.

/// Which tap of a window looks at the column `distance` behind its first; -1: none.
__device__ __forceinline__ constexpr i32 tap_of(i32 distance) {
  return distance < 0 || distance % dilation_width != 0 || distance / dilation_width >= kernel_width
             ? -1
             : distance / dilation_width;
}

template <class T, int PIXELS, bool VECTOR, class Finish>
__device__ __forceinline__ void depthwise(const DepthwiseParameters& p) {
  constexpr i32 columns = (PIXELS - 1) * stride_width + (kernel_width - 1) * dilation_width + 1;
  for (u32 item = blockIdx.x * 128u + threadIdx.x; item < p.items; item += gridDim.x * 128u) {
    const u32 strip_number = divide(item, p.groups), channel = (item - strip_number * p.groups.value) * 8;
    const u32 line = divide(strip_number, p.strips), x0 = (strip_number - line * p.strips.value) * PIXELS;
    const u32 image = divide(line, p.out_h), y = line - image * p.out_h.value;
    const u32 count = p.channels - channel < 8 ? p.channels - channel : 8;
    const T* from = static_cast<const T*>(p.x) + image * p.image + channel;
    const u32 last_x = p.in_w - 1, last_y = p.in_h - 1;
    const T* weights = static_cast<const T*>(p.weights) + channel;
    const i32 left = i32(x0) * stride_width - p.left, top = i32(y) * stride_height - p.top;
    f32 sum[PIXELS][8] = {};
#pragma unroll(kernel_height * kernel_width <= 9 ? kernel_height : 1)
    for (i32 r = 0; r < kernel_height; ++r) {
      const i32 in_y = top + r * dilation_height;
      const bool row_is_inside = u32(in_y) <= last_y;
      const T* row = from + i64(max(0, min(in_y, i32(last_y)))) * p.row;
      f32 weight[kernel_width][8];
#pragma unroll
      for (i32 k = 0; k < kernel_width; ++k)
        load_channels<VECTOR>(weights + (r * kernel_width + k) * p.tap, count, ~0u, weight[k]);
#pragma unroll
      for (i32 j = 0; j < columns; ++j) {
        // Columns between the taps of strided or dilated windows are read by nobody.
        bool is_read = false;
#pragma unroll
        for (i32 q = 0; q < PIXELS; ++q) is_read = is_read || tap_of(j - q * stride_width) >= 0;
        if (!is_read) continue;
        // Without branches, all loads of a row are under way at once: outside, the nearest pixel counts as zeros.
        const i32 in_x = left + j;
        const bool is_inside = row_is_inside && u32(in_x) <= last_x;
        f32 value[8];
        load_channels<VECTOR>(row + i64(max(0, min(in_x, i32(last_x)))) * p.pixel, count,
                              is_inside ? ~0u : 0, value);
#pragma unroll
        for (i32 q = 0; q < PIXELS; ++q) {
          const i32 k = tap_of(j - q * stride_width);
          if (k < 0) continue;
#pragma unroll
          for (int i = 0; i < 8; ++i) sum[q][i] = __fmaf_rn(value[i], weight[k][i], sum[q][i]);
        }
      }
    }
#pragma unroll
    for (u32 q = 0; q < PIXELS; ++q)
      if (x0 + q < p.out_w) finish_columns<Finish>(p, sum[q], line * p.out_w + x0 + q, channel, count);
  }
}
