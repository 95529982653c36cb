// What convolutions by columns (im2col) compute: products of weights, which stay as the model has them, by columns of
// an image, whose neighbouring pixels are the lanes; and the moves around them. Internal to conv_columns.h and
// conv_transpose_columns.h.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// streams[o * stream_step + x] = clamp(bias[o] + the sum over k of columns[k * pitch + x] * weights[o * row_step + k *
/// k_step]), o < outputs, x < count. Sums are made in the order of k, some hundred terms at a time, whatever the sizes.
/// Nothing is read or written beyond `count`.
struct ColumnSums {
  int64_t outputs = 0, terms = 0, count = 0;
  const float* columns = nullptr;
  int64_t pitch = 0;
  const float* weights = nullptr;
  int64_t row_step = 0, k_step = 0;
  const float* bias = nullptr;  ///< or none
  float lo = 0, hi = 0;
  bool clamp = false;
  float* streams = nullptr;
  int64_t stream_step = 0;
  /// kMostColumnRows * terms floats, into which the weights of a tile are copied where its neighbours along k lie
  /// apart; or null.
  float* scratch = nullptr;
};

/// Rows of a tile at most, whatever the instruction set.
inline constexpr int64_t kMostColumnRows = 16;

void column_sums(const ColumnSums& sums);

/// Neighbours in a row of the result, from x on.
struct ColumnSegment {
  int64_t z = 0, y = 0, x = 0, count = 0;
};

/// One tap of a kernel along a row: pixels [first, past) of the result see the image there, the others its padding;
/// pixel x sees column x * stride + shift.
struct ColumnTap {
  int64_t first = 0, past = 0, shift = 0;
};

/// Along an axis that is no row: output o sees position o * stride + k * dilation - pad of `in`.
struct ColumnAxis {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

/// to[((c * depth.kernel + i) * height.kernel + j) * taps + t][...]: what tap (i, j, t) of channel c sees, all segments
/// one behind the other.
struct ColumnGather {
  const float* planes = nullptr;  ///< of the first channel
  int64_t channel_step = 0, line_step = 0, channels = 0;
  ColumnAxis depth, height;
  const ColumnTap* taps = nullptr;
  int64_t tap_count = 0, stride = 1;
  const ColumnSegment* segments = nullptr;
  int64_t segment_count = 0;
  float* to = nullptr;
  int64_t pitch = 0;
  /// Where rows are short: what find_column_offsets() has found for all taps and segments; or null.
  const int32_t* offsets = nullptr;
  int64_t pixels = 0;  ///< of all segments
};

/// offsets[tap * pixels + pixel]: where in a channel's planes, or -1. For planes of at most 2^31 elements.
void find_column_offsets(const ColumnGather& gather, int32_t* offsets);

void gather_columns(const ColumnGather& gather);

/// to[r * to_step + i] += from[r * from_step + i], i < count, r < lines.
struct ColumnRun {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t count = 0, lines = 1, from_step = 0, to_step = 0;
};
void add_columns(const ColumnRun& run);

/// Floats from a row of `count` sums to the next, so that add_columns() does not wait for what it stores: short ones
/// are masked vectors. Long ones begin where lines of the cache do.
inline int64_t column_sums_pitch(int64_t count) {
  constexpr int64_t line = 16, enough = 4 * line;
  if (count <= line / 2) return count <= line / 4 ? line / 4 : line / 2;
  return count <= line || count > enough ? (count + line - 1) / line * line : count;
}

/// Rows of pixels of which each remainder by `stride` lies by itself: pixel x of row r, 0 <= x < width, is phases[(r *
/// stride + (x + cut) % stride) * step + (x + cut) / stride], and goes to to[r * to_step + x].
struct ColumnRows {
  const float* phases = nullptr;
  int64_t rows = 0, stride = 1, step = 0;
  int64_t cut = 0, width = 0;
  float* to = nullptr;
  int64_t to_step = 0;
  const bool* is_seen = nullptr;  ///< of each row: whether its pixels differ
};
void deal_columns(const ColumnRows& rows);

/// Within [lo, hi], in place.
void clamp_columns(float* values, int64_t count, float lo, float hi);

}  // namespace camshaft::cpu
