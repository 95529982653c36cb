// Rows of A of an 8-bit product: copied, added up, and what zero points take off. Included once per instruction set.
#if defined(CAMSHAFT_CPU_INT8_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_INT8_ROWS_INL_H
#undef CAMSHAFT_CPU_INT8_ROWS_INL_H
#else
#define CAMSHAFT_CPU_INT8_ROWS_INL_H
#endif

#include <hwy/highway.h>

#include <cstring>

#include "backends/cpu/kernels/gemm/int8_finish-inl.h"
#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/gemm/int8_tile.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

// The bytes of a row, whose taps start at pointers[t * tap_stride], piece by piece of the weights, with zeros up to
// whole quads.
inline void copy_int8_row(const Int8Problem& p, const uint8_t* const* pointers, int64_t tap_stride, uint8_t* to) {
  const Int8Weights& w = *p.weights;
  const uint8_t bits = p.rows.flip ? 0x80 : 0;
  const int64_t depth = p.rows.depth;
  // Two vectors whatever the depth: calls for 21 bytes each took half of a first layer's time. What is written too much
  // the next piece overwrites, or the next row, or it lies before the end of the scratch memory.
  const bool whole = p.rows.has_room && depth <= Int8Rows::kRoom && !p.rows.flip;
  const int64_t filling = w.piece_quads() * 4 - w.piece;
  int64_t left = w.piece;
  for (int64_t t = 0; t < p.rows.taps; ++t, to += depth) {
    const uint8_t* from = pointers[t * tap_stride];
    if (left == 0) {
      std::memset(to, 0, static_cast<size_t>(filling));
      to += filling;
      left = w.piece;
    }
    if (whole) {
      std::memcpy(to, from, Int8Rows::kRoom);
    } else if (!p.rows.flip) {
      std::memcpy(to, from, static_cast<size_t>(depth));
    } else {
      for (int64_t i = 0; i < depth; ++i) to[i] = from[i] ^ bits;
    }
    left -= depth;
  }
  std::memset(to, 0, static_cast<size_t>(filling));
}

inline void copy_int8_rows(const Int8Problem& p, const uint8_t** pointers, int64_t tap_stride, int64_t rows,
                           uint8_t* copies, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) copy_int8_row(p, pointers + r, tap_stride, copies + r * stride);
  for (int64_t r = 0; r < rows; ++r) pointers[r] = copies + r * stride;
}

inline void sum_int8_rows(const uint8_t* const* pointers, int64_t taps, int64_t depth, int64_t tap_stride, int64_t rows,
                          int32_t* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    int32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const uint8_t* from = pointers[t * tap_stride + r];
      for (int64_t i = 0; i < depth; ++i) sum += from[i];
    }
    sums[r] = sum;
  }
}

// What zero points take off the sums of a tile's rows.
inline void take_tile_zeros(const Int8Problem& p, const Int8Part& part, const int32_t* row_sums, int64_t row0,
                            int64_t rows, int64_t col0, int64_t columns, int32_t* sums, int64_t ld) {
  for (int64_t r = 0; r < rows; ++r) {
    int32_t* of_row = sums + r * ld;
    if (p.column_zeros) int8::take_zeros(of_row, columns, row_sums[r], p.column_zeros + col0);
    if (p.row_zeros && part.block == 0)
      int8::take_zeros(of_row, columns, p.row_zeros[row0 + r], p.row_zero_sums + col0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
