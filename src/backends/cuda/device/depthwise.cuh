// Convolutions of one channel a group, channels last. The text before this one says what the operator fixes: constants
// kernel_height, kernel_width, stride_…, dilation_…. What comes after the sum is Finish, on 8 channels of a pixel.

/// Which tap of a window looks at the column `distance` behind its first; -1: none.
__device__ __forceinline__ constexpr i32 tap_of(i32 distance) {
  return distance < 0 || distance % dilation_width != 0 || distance / dilation_width >= kernel_width
             ? -1
             : distance / dilation_width;
}

/// What a thread computes: PIXELS pixels of a row, of 8 channels.
template <class T, int PIXELS>
struct DepthwiseItem {
  u32 channel, count, line, x0;
  const T *from, *weights;
  i32 left, top;

  __device__ __forceinline__ DepthwiseItem(const DepthwiseParameters& p, u32 item) {
    const u32 strip_number = divide(item, p.groups);
    channel = (item - strip_number * p.groups.value) * 8;
    line = divide(strip_number, p.strips);
    x0 = (strip_number - line * p.strips.value) * PIXELS;
    const u32 image = divide(line, p.out_h), y = line - image * p.out_h.value;
    count = p.channels - channel < 8 ? p.channels - channel : 8;
    from = static_cast<const T*>(p.x) + image * p.image + channel;
    weights = static_cast<const T*>(p.weights) + channel;
    left = i32(x0) * stride_width - p.left;
    top = i32(y) * stride_height - p.top;
  }

  /// Adds what row r of the windows brings.
  template <bool VECTOR>
  __device__ __forceinline__ void add_row(const DepthwiseParameters& p, i32 r, f32 (&sum)[PIXELS][8]) const {
    constexpr i32 columns = (PIXELS - 1) * stride_width + (kernel_width - 1) * dilation_width + 1;
    const u32 last_x = p.in_w - 1, last_y = p.in_h - 1;
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
      load_channels<VECTOR>(row + i64(max(0, min(in_x, i32(last_x)))) * p.pixel, count, is_inside ? ~0u : 0, value);
#pragma unroll
      for (i32 q = 0; q < PIXELS; ++q) {
        const i32 k = tap_of(j - q * stride_width);
        if (k < 0) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[q][i] = __fmaf_rn(value[i], weight[k][i], sum[q][i]);
      }
    }
  }

  template <class Finish>
  __device__ __forceinline__ void finish(const DepthwiseParameters& p, u32 q, const f32 (&sum)[8]) const {
    if (x0 + q < p.out_w) finish_columns<Finish>(p, sum, line * p.out_w + x0 + q, channel, count);
  }
};

template <class T, int PIXELS, bool VECTOR, class Finish>
__device__ __forceinline__ void depthwise(const DepthwiseParameters& p) {
  for (u32 number = blockIdx.x * 128u + threadIdx.x; number < p.items; number += gridDim.x * 128u) {
    const DepthwiseItem<T, PIXELS> item(p, number);
    f32 sum[PIXELS][8] = {};
#pragma unroll(kernel_height * kernel_width <= 9 ? kernel_height : 1)
    for (i32 r = 0; r < kernel_height; ++r) item.template add_row<VECTOR>(p, r, sum);
#pragma unroll
    for (u32 q = 0; q < PIXELS; ++q) item.template finish<Finish>(p, q, sum[q]);
  }
}

/// The same by blocks of a warp for each row of the windows, whose sums are added up in the order of the rows: where there
/// are few pixels, a thread's loads of one row after the other are what takes the time. (7x7 windows of ConvNeXt-T at
/// batch 1 on an H200: 15 us each, whatever their image's size.)
template <class T, int PIXELS, bool VECTOR, class Finish>
__device__ __forceinline__ void depthwise_by_rows(const DepthwiseParameters& p) {
  constexpr u32 lanes = 32, warps = kernel_height;
  __shared__ float4 partial[warps][2 * PIXELS][lanes];
  const u32 lane = threadIdx.x % lanes, warp = threadIdx.x / lanes;
  for (u32 first = blockIdx.x * lanes; first < p.items; first += gridDim.x * lanes) {
    const bool has_item = first + lane < p.items;
    const DepthwiseItem<T, PIXELS> item(p, has_item ? first + lane : 0);
    f32 sum[PIXELS][8] = {};
    item.template add_row<VECTOR>(p, i32(warp), sum);
#pragma unroll
    for (u32 q = 0; q < PIXELS; ++q) {
      partial[warp][2 * q][lane] = make_float4(sum[q][0], sum[q][1], sum[q][2], sum[q][3]);
      partial[warp][2 * q + 1][lane] = make_float4(sum[q][4], sum[q][5], sum[q][6], sum[q][7]);
    }
    __syncthreads();
    for (u32 q = warp; q < PIXELS && has_item; q += warps) {
      f32 all[8] = {};
#pragma unroll
      for (u32 r = 0; r < warps; ++r) {
        const float4 a = partial[r][2 * q][lane], b = partial[r][2 * q + 1][lane];
        const f32 part[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
        for (int i = 0; i < 8; ++i) all[i] += part[i];
      }
      item.template finish<Finish>(p, q, all);
    }
    __syncthreads();
  }
}
