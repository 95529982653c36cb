// What AMX's instructions do, in plain C++: "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 2,
// LDTILECFG to TDPBF16PS. Shapes that do not fit throw Error(internal) where the processor would raise an exception.
// Internal to the kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "base/error.h"

namespace camshaft::cpu {

class PortableTiles {
 public:
  /// Of eight registers.
  PortableTiles(const uint8_t* rows, const uint16_t* row_bytes) : rows_(rows), row_bytes_(row_bytes) {
    for (int i = 0; i < 8; ++i) require(rows[i] <= 16 && row_bytes[i] <= 64 && (rows[i] == 0) == (row_bytes[i] == 0));
  }

  template <int kTile>
  void zero() {
    require(rows_[kTile] > 0);
    std::memset(tiles_[kTile], 0, sizeof tiles_[kTile]);
  }

  template <int kTile>
  void load(const void* from, int64_t stride) {
    zero<kTile>();
    for (int r = 0; r < rows_[kTile]; ++r)
      std::memcpy(tiles_[kTile][r], static_cast<const char*>(from) + r * stride, row_bytes_[kTile]);
  }

  template <int kTile>
  void store(void* to, int64_t stride) {
    require(rows_[kTile] > 0);
    for (int r = 0; r < rows_[kTile]; ++r)
      std::memcpy(static_cast<char*>(to) + r * stride, tiles_[kTile][r], row_bytes_[kTile]);
  }

  template <TileProduct kProduct, int kSum, int kLeft, int kRight>
  void multiply() {
    const int words = row_bytes_[kLeft] / 4, columns = row_bytes_[kSum] / 4;
    require(rows_[kSum] > 0 && rows_[kSum] == rows_[kLeft] && words == rows_[kRight] &&
            row_bytes_[kRight] == row_bytes_[kSum] && row_bytes_[kLeft] % 4 == 0 && row_bytes_[kSum] % 4 == 0);
    for (int r = 0; r < rows_[kSum]; ++r) {
      for (int c = 0; c < columns; ++c) {
        const char* left = tiles_[kLeft][r];
        uint32_t sum;
        std::memcpy(&sum, tiles_[kSum][r] + 4 * c, 4);
        if constexpr (kProduct == TileProduct::bf16_pairs) {
          sum = std::bit_cast<uint32_t>(add_pairs<kRight>(std::bit_cast<float>(sum), left, words, c));
        } else {
          for (int k = 0; k < 4 * words; ++k) {
            const int32_t x = kProduct == TileProduct::u8_s8 ? static_cast<int32_t>(static_cast<uint8_t>(left[k]))
                                                             : static_cast<int32_t>(static_cast<int8_t>(left[k]));
            sum += static_cast<uint32_t>(x * static_cast<int8_t>(tiles_[kRight][k / 4][4 * c + k % 4]));
          }
        }
        std::memcpy(tiles_[kSum][r] + 4 * c, &sum, 4);
      }
    }
  }

 private:
  static void require(bool fits) {
    if (!fits) throw Error(ErrorCode::internal, "tiles whose shapes do not fit are multiplied");
  }

  // Subnormal numbers count as 0, as operands and as results.
  static float flushed(float x) {
    return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0f, x) : x;
  }
  static float element(const char* at) {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return flushed(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
  }
  // Products of bf16 have 16 bits: within the range of f32 they are exact, so that sums are rounded once. (std::fma
  // would be a call, and ten times as slow.)
  static float multiply_add(float a, float b, float sum) { return flushed(sum + a * b); }

  // Both elements of pairs have sums of their own, which are added to each other and then to what there is.
  template <int kRight>
  float add_pairs(float sum, const char* left, int words, int column) const {
    float even = 0, odd = 0;
    for (int k = 0; k < words; ++k) {
      const char* right = tiles_[kRight][k] + 4 * column;
      even = multiply_add(element(left + 4 * k), element(right), even);
      odd = multiply_add(element(left + 4 * k + 2), element(right + 2), odd);
    }
    return flushed(flushed(sum) + flushed(even + odd));
  }

  const uint8_t* rows_;
  const uint16_t* row_bytes_;
  char tiles_[8][16][64] = {};
};

}  // namespace camshaft::cpu
