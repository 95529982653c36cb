// How a line of a depthwise convolution's result is cut, and which lines of the image it sees. Internal to the kernel.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/conv/int8_depthwise.h"

namespace camshaft::cpu {

/// What memory a thread has for a piece of a line.
struct LineBlocks {
  /// `quads`: the kernel multiplies quads of lines (int8_depthwise_quads-inl.h), else pairs.
  LineBlocks(const ConvShape& s, const Int8DepthwiseWeights& w, bool quads)
      : chunk(std::min<int64_t>(quads ? 64 : 256, w.padded())),
        apart(s.dilation_w > 4),
        step(apart ? w.columns : s.stride_w),
        group_words(quads ? w.line_quads() * 64 : w.line_pairs() * 16),
        results(quads ? together(s, w) : 1),
        lines(w.lines + (results - 1) * s.stride_h),
        weight_words(results > 1 ? results * w.columns * w.line_quads() * 64 : 0) {
    // Prepared columns stay in L1 beside the sums.
    const int64_t most_words = quads ? 3 << 10 : 6 << 10, most_sums = quads ? 2 << 10 : 8 << 10;
    const int64_t most = std::min<int64_t>(s.out_w(), most_sums / chunk / results);
    pixels = std::max<int64_t>(1, most);
    while (pixels > 1 && columns(s, w, pixels) * group_words > most_words) pixels = (pixels + 1) / 2;
    column_words = columns(s, w, pixels) * group_words;
  }

  /// Prepared columns of so many pixels.
  int64_t columns(const ConvShape& s, const Int8DepthwiseWeights& w, int64_t count) const {
    return apart ? count * w.columns : (count - 1) * s.stride_w + (w.columns - 1) * s.dilation_w + 1;
  }

  int64_t chunk;         ///< channels that are finished at once
  bool apart;            ///< each pixel has columns of its own: hardly any would be shared
  int64_t step;          ///< columns from a pixel's first to the next one's
  int64_t group_words;   ///< of a prepared column, for as many channels as are prepared at once
  int64_t results;       ///< lines of the result that are computed from the same columns
  int64_t lines;         ///< of the image that these see
  int64_t weight_words;  ///< of a chunk, for each of them where they are several
  int64_t pixels = 1, column_words = 0;
  int64_t sum_words() const { return results * pixels * chunk; }
  int64_t bytes() const { return (column_words + weight_words + sum_words()) * 4 + (lines * 8 + 63) / 64 * 64; }

 private:
  // As many as there is room for in the quads of one: two for kernels of three lines, four for those of five.
  static int64_t together(const ConvShape& s, const Int8DepthwiseWeights& w) {
    if (s.kernel_d > 1 || s.dilation_h > 1) return 1;
    const int64_t most = std::min((4 * w.line_quads() - w.lines) / s.stride_h + 1, s.out_h());
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
  }
};

/// A piece of a line: its pixels, and channels from `channel` on, of which the first `count` are there.
struct LinePiece {
  const Int8DepthwiseProblem* p;
  const LineBlocks* blocks;
  const uint8_t* const* lines;  ///< of the image below the kernel's; null where one lies in the padding
  int64_t pixel0, pixels, channel, count;
  int64_t results;  ///< lines of the result that are there
};

/// Columns of the image for the piece, in runs that are prepared one after the other: `outside(count)` for those in the
/// padding, `inside(column, apart, count)` for `count` of them, `apart` columns from one to the next.
template <class Outside, class Inside>
void for_columns(const LinePiece& piece, Outside&& outside, Inside&& inside) {
  const ConvShape& s = piece.p->shape;
  const int64_t left = piece.pixel0 * s.stride_w - s.pad_left;
  const int64_t runs = piece.blocks->apart ? piece.pixels : 1, apart = piece.blocks->apart ? s.dilation_w : 1;
  const int64_t count = piece.blocks->columns(s, piece.p->weights, piece.pixels) / runs;
  for (int64_t run = 0; run < runs; ++run) {
    const int64_t x0 = left + run * s.stride_w;
    const int64_t begin = std::clamp<int64_t>(x0 >= 0 ? 0 : (apart - 1 - x0) / apart, 0, count);
    const int64_t end = std::clamp<int64_t>(x0 >= s.in_w ? 0 : (s.in_w - x0 + apart - 1) / apart, begin, count);
    outside(begin);
    inside(x0 + begin * apart, apart, end - begin);
    outside(count - end);
  }
}

}  // namespace camshaft::cpu
