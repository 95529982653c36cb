// What squeeze and excite is given.
#pragma once

#include "backends/cuda/device/numbers.h"

namespace camshaft::cuda {

constexpr u32 most_squeeze_excite_operands = 12;

struct SqueezeExciteParameters {
  const void* x = nullptr;
  void* y = nullptr;
  const void* squeeze = nullptr;  ///< weights: a row of the channels for each of `hidden`, …
  const void* excite = nullptr;   ///< … and one of `hidden` for each channel; 16 bytes at a time are there, or zeros
  u32 pixels = 0, channels = 0, hidden = 0;
  u32 squeeze_pitch = 0, excite_pitch = 0;  ///< of these rows, in elements
  // Of powers of two, the logarithms, for a division would take as long as a sum:
  u32 slab_bits = 0, part_bits = 0;  ///< slabs, and parts of the pixels: gridDim.y is their product
  u32 channel_bits = 0, squeeze_bits = 0, excite_bits = 0;  ///< neighbours that share a sum, up to 32
  f32 part = 0;                                             ///< 1 / pixels
  u32 holds_weights = 0;                                    ///< whether shared memory has room for them
  // Bytes from the start of shared memory. Floats: of each channel of the slab, …
  u32 means = 0, gates = 0;
  u32 totals = 0, totals_pitch = 0;  ///< … the same of each part, so many floats apart
  // Of each of `hidden`, rounded up to 8:
  u32 own = 0, all = 0, hidden_at = 0;  ///< this block's sums, those of each block, and what they come to
  u32 scratch = 0;                      ///< a piece of sums for each thread
  u32 squeeze_at = 0, excite_at = 0, image_at = 0;
  const void* operand[most_squeeze_excite_operands] = {};
};

}  // namespace camshaft::cuda
