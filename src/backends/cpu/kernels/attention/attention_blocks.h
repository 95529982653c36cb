// How attention is cut into blocks, and one thread's scratch memory. Internal to the kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/attention/attention.h"

namespace camshaft::cpu {

/// Keys whose scores are kept at a time; fewer problems have to be rescaled when it is large.
inline constexpr int64_t kAttentionKeys = 512;
/// Scores kept at a time, in floats, and rows of them: 64 KiB, a small part of L2.
inline constexpr int64_t kAttentionScores = 16 * 1024;
inline constexpr int64_t kAttentionRows = 48;
/// Values that one pass of the second product goes over: with 64 columns 16 KiB, half of the smallest L1.
inline constexpr int64_t kAttentionDepth = 64;
/// At most so many queries read keys where they are, and values.
inline constexpr int64_t kAttentionFewRows = 6;
inline constexpr int64_t kAttentionShort = 64;
/// Rows are cut at multiples of this: full register tiles of 6 and 12.
inline constexpr int64_t kAttentionGrain = 6;

struct AttentionBlocks {
  int64_t keys = 0;          ///< of a block, a multiple of the panel width unless it is the only one
  int64_t rows = 0;          ///< queries of a block, at most kAttentionRows
  int64_t row_blocks = 0;    ///< for each problem
  int64_t score_stride = 0;  ///< floats from one row of scores to the next

  static int64_t round_up(int64_t n, int64_t grain) { return (n + grain - 1) / grain * grain; }

  AttentionBlocks(int64_t queries, int64_t all_keys, int64_t panel_width) {
    const int64_t blocks = std::max<int64_t>(1, (all_keys + kAttentionKeys - 1) / kAttentionKeys);
    keys = blocks == 1 ? all_keys : round_up((all_keys + blocks - 1) / blocks, panel_width);
    score_stride = round_up(keys, panel_width);
    const int64_t most =
        std::clamp<int64_t>(kAttentionScores / std::max<int64_t>(1, score_stride) / 12 * 12, 12, kAttentionRows);
    const int64_t pieces = std::max<int64_t>(1, (queries + most - 1) / most);
    rows = std::min(most, round_up((queries + pieces - 1) / pieces, kAttentionGrain));
    row_blocks = (queries + rows - 1) / std::max<int64_t>(1, rows);
  }
};

/// Few queries of few problems are cut along their keys, so that there is work for many threads (Flash-Decoding, Dao et
/// al., 2023): each part gives the largest score, the sum of exponentials and the sums of values of each row. The parts
/// depend on the sizes alone, and so do the results.
struct AttentionParts {
  static constexpr int64_t head_floats = 16;  ///< before the sums of a row: its largest score, and the total

  static int64_t count(const AttentionArgs& a) {
    // As many units as 64 threads share evenly; one of fewer keys, or of less than 16 KiB, is not worth starting.
    constexpr int64_t units = 256, least_keys = 64, unit_floats = 4096;
    if (a.queries > kAttentionFewRows || a.outer <= 0 || 2 * a.outer > units || a.keys < 4 * least_keys) return 1;
    const int64_t keys = std::max(least_keys, unit_floats / std::max<int64_t>(1, a.size + a.value_size));
    return std::clamp<int64_t>(units / a.outer, 1, std::max<int64_t>(1, a.keys / keys));
  }
  static int64_t row_floats(const AttentionArgs& a) {
    return head_floats + AttentionBlocks::round_up(a.value_size, 16);
  }
};

/// Parts of one thread's workspace. Sizes are multiples of 16 floats.
struct AttentionScratch {
  float *keys, *values, *scores, *sums, *queries, *panel, *rows, *mask_rows, *row_vectors, *largest, *total, *factor,
      *inverse;

  static int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

  static int64_t floats(const AttentionArgs& a, int64_t panel_width, int64_t lanes) {
    AttentionScratch none(nullptr);
    return none.lay_out(a, panel_width, lanes);
  }
  AttentionScratch(const AttentionArgs& a, int64_t panel_width, int64_t lanes, float* memory)
      : AttentionScratch(memory) {
    lay_out(a, panel_width, lanes);
  }

 private:
  explicit AttentionScratch(float* memory) : at_(memory) {}
  float* at_;
  int64_t used_ = 0;

  void place(float*& part, int64_t floats) {
    part = at_ ? at_ + used_ : nullptr;
    used_ += whole_lines(floats);
  }
  int64_t lay_out(const AttentionArgs& a, int64_t panel_width, int64_t lanes) {
    const AttentionBlocks blocks(a.queries, a.keys, panel_width);
    const int64_t columns = AttentionBlocks::round_up(a.value_size, lanes);
    place(keys, a.size * AttentionBlocks::round_up(a.keys, panel_width));
    place(values, a.keys * columns);
    place(scores, kAttentionRows * blocks.score_stride);
    place(sums, kAttentionRows * columns);
    place(queries, kAttentionRows * a.size);
    // Of operands that are rounded: the words of a panel's keys; two rows whose elements lie apart.
    place(panel, a.rounds ? panel_width * ((a.size + 1) / 2) : 0);
    place(rows, a.rounds ? 2 * std::max(a.size, columns) : 0);
    place(mask_rows, a.mask_count * blocks.score_stride);
    place(row_vectors, kAttentionRows * lanes);
    for (float** part : {&largest, &total, &factor, &inverse}) place(*part, kAttentionRows);
    return used_;
  }
};

}  // namespace camshaft::cpu
