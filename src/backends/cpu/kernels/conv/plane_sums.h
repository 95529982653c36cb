// Sums over neighbouring pixels of planes, one a channel: what convolutions and transposed ones compute where pixels
// are the lanes. Internal to conv_planes.h and conv_transpose_planes.h.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// One block of up to four output channels of one row: streams[o * stream_step + x] = clamp(bias[o] + the sum over
/// lines, channels and taps of plane(line, channel)[x + offset] * weight), 0 <= x < count, and nothing is written
/// beyond. Planes are read by whole vectors.
struct PlaneSums {
  int64_t outputs = 1;
  int64_t lines = 0, channels = 0, taps = 0;
  const float* const* line = nullptr;  ///< the first plane of each; null outside of the image
  int64_t plane = 0;                   ///< floats from there to the first that is taken
  int64_t pitch = 0;                   ///< floats from a channel's plane to the next
  const int64_t* offset = nullptr;     ///< of each tap
  const float* weights = nullptr;      ///< [lines][channels][taps][outputs]
  const float* bias = nullptr;         ///< or none
  float lo = 0, hi = 0;
  bool clamp = false;
  int64_t count = 0;
  float* streams = nullptr;
  int64_t stream_step = 0;
};

void plane_sums(const PlaneSums& sums);

/// Rows of one output channel of one input channel, of which each sees the lines from its own on: streams[r *
/// stream_step + x] of the lines [r, r + lines). `line` has lines + rows - 1 of them. A line is loaded once for all
/// rows that see it.
void plane_row_sums(const PlaneSums& sums, int64_t rows);

/// The same of rows of which each has lines of its own, line[r * lines + l]: short ones by themselves would wait for
/// their sums.
void plane_separate_row_sums(const PlaneSums& sums, int64_t rows);

/// Rows of plane_row_sums() at most.
inline constexpr int64_t kPlaneRows = 4;

/// Output channels of a block at most.
inline constexpr int64_t kPlaneOutputs = 4;

/// Floats that planes have room for beyond the last of `count`, whatever the instruction set.
inline constexpr int64_t kPlaneSlack = 32;

/// to[2 * i] = even[i] and to[2 * i + 1] = odd[i]: two streams become a row of a plane.
void deal_pairs(const float* even, const float* odd, int64_t pairs, float* to);

/// to[p * pitch + i] = from[stride * i + p], i < count, p < stride: a line becomes a plane for each remainder.
void deal_phases(const float* from, int64_t count, int64_t stride, float* to, int64_t pitch);

/// to[i] = from[2 * i], i < count; reads nothing behind the last of these.
void take_every_second(const float* from, int64_t count, float* to);

}  // namespace camshaft::cpu
