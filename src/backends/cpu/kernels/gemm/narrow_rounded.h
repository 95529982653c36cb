// Rows that are rounded to bytes by blocks (ops::RoundBlocks) times weights of few bits, as products of bytes: sums of
// a block of both are whole numbers, which the scales of the two then multiply. Internal to the kernels.
//
// Codes of 4 bits stay as they are, from 0 to 15, and four products of a column and its neighbours' sum stay within 16
// bits for a block of 32: 8 · 2 · 15 · 127 < 2^15. So `vpmaddubsw` adds them up without saturating, and machines with
// VNNI take a quad at once. Codes of 8 bits are two of 4 bits without it.
#pragma once

#include "backends/cpu/kernels/gemm/narrow_gemm.h"

namespace camshaft::cpu {

/// Elements that share what a row's elements are counted in: at most kHighestStep times a unit each. The largest of
/// them counts as kLeastLargest at least.
inline constexpr int64_t kRoundedBlock = 32;
inline constexpr int kHighestStep = 127;
inline constexpr float kLeastLargest = 0x1p-100F;

/// Whether this machine multiplies bytes; elsewhere rows are rounded as floats.
bool has_byte_products();

/// Rows of A in bytes, in memory that the caller has: 64-byte aligned and of bytes().
struct RoundedRows {
  RoundedRows(const NarrowWeights& w, int64_t m, void* memory);
  static int64_t bytes(const NarrowWeights& w, int64_t m);

  /// Elements of a segment: the largest part of K that neither the weights' blocks nor the rows' cut apart.
  static int64_t segment(const NarrowWeights& w) { return w.blocks() == 1 || w.block % 32 == 0 ? 32 : 16; }
  static int64_t segments(const NarrowWeights& w) { return (w.k + segment(w) - 1) / segment(w); }

  int64_t row_bytes = 0, row_units = 0, row_sums = 0;
  int8_t* steps = nullptr;  ///< [m, row_bytes]; zeros behind K
  float* units = nullptr;   ///< [m, row_units]: of a block; NaN where it has an element that is not finite
  float* sums = nullptr;    ///< [m, row_sums]: of the steps of a segment
};

/// Rows [begin, end).
void round_rows(const NarrowGemm& args, const RoundedRows& rows, int64_t begin, int64_t end);

/// The segments [begin, end) of K.
struct RoundedPart {
  int64_t begin = 0, end = 0;
  bool add = false;  ///< to the sums that are there
};

/// Sums over a part of K of a panel's columns for rows [row0, row1), to sums[(row - row0) * ld + column within the
/// panel]. A row's do not depend on the rows beside it.
void rounded_panel_sums(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const RoundedPart& part,
                        int64_t row0, int64_t row1, float* sums, int64_t ld);

/// Rows [begin, end) rounded, as floats: rows of K.
void round_rows_to_floats(const NarrowGemm& args, float* to, int64_t begin, int64_t end);

}  // namespace camshaft::cpu
