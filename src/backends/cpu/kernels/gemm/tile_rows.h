// Rows of A as a unit that multiplies tiles reads them: a constant step apart. Internal to the kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/gemm/matrix_tiles.h"

namespace camshaft::cpu {

/// A block of rows that are found through pointers, as tiles.
class TileRowBlock {
 public:
  /// Bytes of copies and of the descriptions of tiles for `rows` rows of `taps` pieces of `tap_bytes`; multiples of 64.
  static int64_t copy_bytes(int64_t rows, int64_t taps, int64_t tap_bytes) {
    return round_up(round_up(rows, kTileRows) * taps * tap_bytes, 64);
  }
  static int64_t description_bytes(int64_t rows, int64_t taps) {
    return round_up(divide_up(rows, kTileRows) * taps * static_cast<int64_t>(sizeof(TileRows)), 64);
  }

  TileRowBlock(void* descriptions, void* copies)
      : tiles_(static_cast<TileRows*>(descriptions)), copies_(static_cast<char*>(copies)) {}

  /// Row r of tap t is the `tap_bytes` bytes `offset` bytes behind pointers[t * tap_stride + r]. Tiles whose rows lie a
  /// constant step apart are read in place, others are copied.
  template <class T>
  void set(const T* const* pointers, int64_t tap_stride, int64_t taps, int64_t rows, int64_t tap_bytes,
           int64_t offset = 0) {
    taps_ = taps;
    char* to = copies_;
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int64_t count = rows - row < kTileRows ? rows - row : kTileRows;
      TileRows* const tile = tiles_ + row / kTileRows * taps;
      for (int64_t t = 0; t < taps; ++t) {
        const T* const* of_tap = pointers + t * tap_stride + row;
        const auto* first = reinterpret_cast<const char*>(of_tap[0]);
        const int64_t stride = count > 1 ? reinterpret_cast<const char*>(of_tap[1]) - first : 64;
        bool even = true;
        for (int64_t r = 2; r < count; ++r) even &= reinterpret_cast<const char*>(of_tap[r]) == first + r * stride;
        if (even) {
          tile[t] = {first + offset, stride};
          continue;
        }
        tile[t] = {to, tap_bytes};
        for (int64_t r = 0; r < count; ++r, to += tap_bytes)
          copy(reinterpret_cast<const char*>(of_tap[r]) + offset, tap_bytes, to);
      }
    }
  }
  /// Rows of one piece, `stride` bytes apart.
  void set(const void* first, int64_t stride, int64_t rows) {
    taps_ = 1;
    for (int64_t row = 0; row < rows; row += kTileRows)
      tiles_[row / kTileRows] = {static_cast<const char*>(first) + row * stride, stride};
  }

  /// Rows as in set(), their taps one behind the other in copies of `row_bytes`, which zeros fill up.
  template <class T>
  void gather(const T* const* pointers, int64_t tap_stride, int64_t taps, int64_t rows, int64_t tap_bytes,
              int64_t offset, int64_t row_bytes) {
    for (int64_t r = 0; r < rows; ++r) {
      char* to = copies_ + r * row_bytes;
      for (int64_t t = 0; t < taps; ++t, to += tap_bytes)
        copy(reinterpret_cast<const char*>(pointers[t * tap_stride + r]) + offset, tap_bytes, to);
      std::memset(to, 0, static_cast<size_t>(row_bytes - taps * tap_bytes));
    }
    set(copies_, row_bytes, rows);
  }

  /// The taps of the tile that begins with row `row`.
  const TileRows* at(int64_t row) const { return tiles_ + row / kTileRows * taps_; }

 private:
  // Inline, for a call takes as long as a row of 64 bytes.
  static void copy(const char* from, int64_t bytes, char* to) {
    int64_t i = 0;
    for (; i + 32 <= bytes; i += 32) std::memcpy(to + i, from + i, 32);
    for (; i + 4 <= bytes; i += 4) std::memcpy(to + i, from + i, 4);
  }

  TileRows* tiles_;
  char* copies_;
  int64_t taps_ = 1;
};

}  // namespace camshaft::cpu
