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
  const char* prefetch;
  int prefetch_lines;  ///< cache lines to ask for every step
};

}  // namespace camshaft::cpu
