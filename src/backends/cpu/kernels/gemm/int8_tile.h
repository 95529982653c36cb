// Arguments of one register tile of an 8-bit product (int8_tile-inl.h). Internal to the kernels.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

struct Int8TileArgs {
  const uint8_t* const* rows;  ///< row r of tap t starts at rows[t * tap_stride + r]
  int64_t tap_stride;
  int64_t taps, quads;   ///< quads of a tap
  const int32_t* b;      ///< a panel
  const int32_t* begin;  ///< of the panel's columns
  uintptr_t prefetch;    ///< where the next lines lie (address_of(), cache_line.h)
  int prefetch_lines;    ///< cache lines to ask for every step
};

/// A block of K whose sums alone are wanted, zero points taken off; without a place for them: the whole product.
struct Int8Part {
  int64_t block = 0, blocks = 1;
  int32_t* sums = nullptr;  // padded_columns() of each row of the product
};

}  // namespace camshaft::cpu
