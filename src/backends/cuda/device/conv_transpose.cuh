// Transposed convolutions of one group, channels last: each output gathers the taps that reach it. The text before this
// one says what the operator fixes: constants kernel_height, kernel_width, stride_…, dilation_…. What comes after the
// sum is Finish, on 8 channels of a pixel.

template <class T, bool VECTOR, class Finish>
__device__ __forceinline__ void conv_transpose(const ConvTransposeParameters& p) {
  constexpr u32 pixels = 4;
  for (u32 item = blockIdx.x * 128u + threadIdx.x; item < p.items; item += gridDim.x * 128u) {
    u32 rest = divide(item, p.groups);
    const u32 channel = (item - rest * p.groups.value) * 8;
    u32 above = divide(rest, p.phases);
    const i32 phase = rest - above * p.phases.value;
    const u32 line = divide(above, p.quads);
    const i32 first = (above - line * p.quads.value) * pixels;
    const u32 image = divide(line, p.out_h);
    const i32 y = line - image * p.out_h.value;
    const u32 count = p.out_channels - channel < 8 ? p.out_channels - channel : 8;
    const T* from = static_cast<const T*>(p.x) + image * p.image;
    const T* weights = static_cast<const T*>(p.weights) + channel;
    f32 sum[pixels][8] = {};
    for (i32 r = 0; r < kernel_height; ++r) {
      const i32 down = y + p.top - r * dilation_height, in_y = down / stride_height;
      if (down < 0 || in_y * stride_height != down || in_y >= p.in_h) continue;
      for (i32 k = 0; k < kernel_width; ++k) {
        const i32 across = phase + p.left - k * dilation_width, shift = across / stride_width;
        if (shift * stride_width != across) continue;
        const T* pixel[pixels];
        u32 mask[pixels];
#pragma unroll
        for (u32 q = 0; q < pixels; ++q) {
          const i32 in_x = first + i32(q) + shift;
          mask[q] = in_x >= 0 && in_x < p.in_w ? ~0u : 0;
          pixel[q] = from + in_y * p.row + i64(max(0, min(in_x, p.in_w - 1))) * p.pixel;
        }
        const T* tap = weights + i64(r * kernel_width + k) * p.out_channels;
        for (u32 c = 0; c < p.in_channels; c += 8) {
          const u32 inputs = p.in_channels - c < 8 ? p.in_channels - c : 8;
          f32 value[pixels][8];
#pragma unroll
          for (u32 q = 0; q < pixels; ++q) load_channels<VECTOR>(pixel[q] + c, inputs, mask[q], value[q]);
#pragma unroll
          for (u32 i = 0; i < 8; ++i) {
            if (!VECTOR && i >= inputs) continue;
            f32 weight[8];
            load_channels<VECTOR>(tap + (c + i) * p.pitch, count, ~0u, weight);
#pragma unroll
            for (u32 q = 0; q < pixels; ++q)
#pragma unroll
              for (int o = 0; o < 8; ++o) sum[q][o] = __fmaf_rn(value[q][i], weight[o], sum[q][o]);
          }
        }
      }
    }
#pragma unroll
    for (u32 q = 0; q < pixels; ++q) {
      const u32 x = phase + (first + q) * stride_width;
      if (x < p.out_w) finish_columns<Finish>(p, sum[q], line * p.out_w + x, channel, count);
    }
  }
}
