// Constant weights of contractions, as rows along which a kernel sums.
#pragma once

#include "compile/backend.h"

namespace camshaft {

/// How a constant is laid out: for each of `rows` outputs, `taps` positions of `channels` each, consecutive; the next
/// row `pitch` elements later, a multiple of 16 bytes. What is between is zero, and so is what follows the last row of
/// many up to a multiple of 32: devices copy that many at once.
struct WeightRows {
  int64_t rows = 0, taps = 1, channels = 0, pitch = 0;
  bool is_transposed = false;  ///< the model's tensor is [channels, rows]; else it is [rows, channels, taps]

  WeightRows(int64_t rows, int64_t taps, int64_t channels, bool is_transposed, DType dtype);

  /// Those that are there, with the rows of zeros.
  int64_t held_rows() const;
};

/// The constant at input `i` of the region in that layout. Valid as long as `constants` lives.
std::span<const std::byte> pack_weight_rows(const RegionView& region, size_t i, const WeightRows& layout,
                                            PackedConstants& constants);

/// The model's tensor; undefined when the layout is not one of these. Throws Error(corrupt_engine) when it does not fit
/// the bytes or the shape.
Tensor unpack_weight_rows(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft
