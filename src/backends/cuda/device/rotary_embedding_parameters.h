// What rotary position embeddings are given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Where a pair's angles are in a row of a table: from its first to its second, and from pair to pair.
struct RotaryTable {
  i64 stride[8] = {};
  u32 second = 0, pair = 1;
};

/// A row's items are its pairs, and then the elements that are only copied.
struct RotaryParameters {
  u32 items = 0, rank = 0;
  Divisor row;      ///< items of one
  Divisor size[8];  ///< of the axes that rows are made along
  u32 pairs = 0;
  u32 step = 1, distance = 0;  ///< from pair to pair, and from a pair's first element to its second
  i64 pitch = 0;               ///< from row to row of the result
  i64 stride[8] = {};          ///< of x
  RotaryTable cosine, sine;
};

}  // namespace camshaft::cuda
