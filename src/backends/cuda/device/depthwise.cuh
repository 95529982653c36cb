// Convolutions of one channel a group, channels last. The text before this one says what the operator fixes: constants
// kernel_height, kernel_width, stride_…, dilation_…. What comes after the sum is Finish, on 8 channels of a pixel.

/// Which tap of a window looks at the column `distance` behind its first; -1: none.
__device__ __forceinline__ constexpr i32 tap_of(i32 distance) {
  return distance < 0 || distance % dilation_width != 0 || distance / dilation_width >= kernel_width
             ? -1
             : distance / dilation_width;
}

/// Whether one of so many pixels has a tap in column j. Those between the taps of strided or dilated windows have none.
template <int PIXELS>
__device__ __forceinline__ constexpr bool is_read(i32 j) {
  for (i32 q = 0; q < PIXELS; ++q)
    if (tap_of(j - q * stride_width) >= 0) return true;
  return false;
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
    const u32 image = divide(line, p.lines), y = line - image * p.lines.value;
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
      if (!is_read<PIXELS>(j)) continue;
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

/// The same by blocks of 32 channels, whose weights lie in shared memory as f32: a thread has 4 channels of PIXELS pixels
/// of LINES rows, and each row of the image is widened once for all of these. (7x7 windows of ConvNeXt-T at batch 8 on an
/// H200 took 24 to 28 us by strips, a tenth of what the multiprocessors multiply: converting halves took the others'
/// place, once for each row of a window.)
template <class T, int PIXELS, int LINES, class Finish>
__device__ __forceinline__ void depthwise_by_lines(const DepthwiseParameters& p) {
  constexpr u32 lanes = 8, wide = 4, block_channels = lanes * wide;
  constexpr i32 rows = (LINES - 1) * stride_height + (kernel_height - 1) * dilation_height + 1;
  constexpr i32 columns = (PIXELS - 1) * stride_width + (kernel_width - 1) * dilation_width + 1;
  static_assert(PIXELS % 2 == 0);
  alignas(16) __shared__ f32 weights[kernel_height * kernel_width][block_channels];
  const u32 first_channel = blockIdx.y * block_channels;
  for (u32 e = threadIdx.x; e < kernel_height * kernel_width * block_channels; e += 128) {
    const u32 tap = e / block_channels, c = e % block_channels;
    weights[tap][c] =
        first_channel + c < p.channels ? widen(static_cast<const T*>(p.weights)[tap * p.tap + first_channel + c]) : 0;
  }
  take_turn();
  __syncthreads();
  const u32 lane = threadIdx.x % lanes, channel = first_channel + lane * wide, is_odd = lane % 2;
  const u32 item = blockIdx.x * (128 / lanes) + threadIdx.x / lanes;
  // Threads without one take part in what pairs of them exchange.
  const bool has_item = item < p.items && channel < p.channels;
  const u32 number = has_item ? item : 0;
  const u32 line = divide(number, p.strips), x0 = (number - line * p.strips.value) * PIXELS;
  const u32 image = divide(line, p.lines), y0 = (line - image * p.lines.value) * LINES;
  const T* from = static_cast<const T*>(p.x) + image * p.image + (has_item ? channel : 0);
  const i32 left = i32(x0) * stride_width - p.left, top = i32(y0) * stride_height - p.top;
  const i32 last_x = p.in_w - 1, last_y = p.in_h - 1;
  typedef Words<wide * sizeof(T)> Held;
  typename Held::Word next[columns][Held::words];
  // The next row comes while this one is multiplied: a block may be alone on its multiprocessor.
  const auto fetch = [&](i32 i) {
    const T* row = from + i64(max(0, min(top + i, last_y))) * p.row;
#pragma unroll
    for (i32 j = 0; j < columns; ++j)
      if (is_read<PIXELS>(j)) Held::get(row + u32(max(0, min(left + j, last_x))) * u32(p.pixel), next[j]);
  };
  fetch(0);
  f32 sum[LINES][PIXELS][wide] = {};
#pragma unroll 1
  for (i32 i = 0; i < rows; ++i) {
    const bool row_is_inside = u32(top + i) <= u32(last_y);
    f32 value[columns][wide];
#pragma unroll
    for (i32 j = 0; j < columns; ++j) {
      if (!is_read<PIXELS>(j)) continue;
      // As in load_channels(): without branches.
      const u32 mask = row_is_inside && u32(left + j) <= u32(last_x) ? ~0u : 0;
      union {
        T element[wide];
        typename Held::Word word[Held::words];
      } raw;
#pragma unroll
      for (int w = 0; w < Held::words; ++w) raw.word[w] = next[j][w] & mask;
#pragma unroll
      for (u32 c = 0; c < wide; ++c) value[j][c] = widen(raw.element[c]);
    }
    if (i + 1 < rows) fetch(i + 1);
#pragma unroll
    for (i32 o = 0; o < LINES; ++o) {
      const i32 distance = i - o * stride_height;
      if (distance < 0 || distance % dilation_height != 0 || distance / dilation_height >= kernel_height) continue;
      const f32* taps = &weights[distance / dilation_height * kernel_width][lane * wide];
#pragma unroll
      for (i32 k = 0; k < kernel_width; ++k) {
        f32 weight[wide];
        load(taps + k * block_channels, weight);
#pragma unroll
        for (i32 q = 0; q < PIXELS; ++q)
#pragma unroll
          for (u32 c = 0; c < wide; ++c)
            sum[o][q][c] = __fmaf_rn(value[q * stride_width + k * dilation_width][c], weight[c], sum[o][q][c]);
      }
    }
  }
  // Of two pixels, each of a pair of threads takes all 8 channels of one.
  typename Finish::OfColumns of_columns;
  const u32 column = channel - is_odd * wide;
  if (has_item) of_columns.load(p, column, columns_at_once);
#pragma unroll
  for (u32 o = 0; o < LINES; ++o)
#pragma unroll
    for (u32 q = 0; q < PIXELS; q += 2) {
      f32 all[columns_at_once];
#pragma unroll
      for (u32 c = 0; c < wide; ++c) {
        const f32 mine = is_odd ? sum[o][q + 1][c] : sum[o][q][c], given = is_odd ? sum[o][q][c] : sum[o][q + 1][c];
        const f32 got = __shfl_xor_sync(0xffffffffu, given, 1);
        all[c] = is_odd ? got : mine;
        all[wide + c] = is_odd ? mine : got;
      }
      const u32 x = x0 + q + is_odd, y = y0 + o;
      if (!has_item || x >= p.out_w || y >= p.out_h) continue;
      const u32 pixel = (image * p.out_h + y) * p.out_w + x;
      typename Finish::OfRow of_row;
      of_row.load(p, pixel, column, columns_at_once);
      Finish::run(p, all, of_columns, of_row, pixel, column, columns_at_once);
    }
}
