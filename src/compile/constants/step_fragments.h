// Constant weights of few bits, laid out as the tensor cores of GPUs take them.
#pragma once

#include "compile/backend.h"

namespace camshaft {

/// How the steps of a product [rows, k] x [k, n] lie: tiles of 16 columns, of which each chunk of k is 512 bytes, 16
/// for each lane of a warp. These are the lane's elements of the matrices of 16 columns by 16 of k (PTX ISA, fragments
/// of A of mma.m16n8k16) that the chunk is made of, one behind the other, so that a lane reads what it multiplies with
/// one access. Within a matrix the pairs of elements along k are apart in the lower and the upper 16 bits of a word,
/// where one mask takes both (steps of 8 bits: side by side). Steps of signed types are moved up, the lowest one to 0.
/// What is beyond n and k is 0.
struct StepFragments {
  int bits = 4;
  int64_t k = 0, n = 0;
  bool transposed = false;  ///< the model's matrix is [n, k]

  static constexpr int64_t tile_columns = 16, chunk_bytes = 512;
  int64_t chunk() const { return 256 / bits; }  ///< elements along k
  int64_t chunks() const { return (k + chunk() - 1) / chunk(); }
  int64_t tiles() const { return (n + tile_columns - 1) / tile_columns; }
  size_t bytes() const { return static_cast<size_t>(tiles() * chunks() * chunk_bytes); }
};

/// How their scales and zero points lie: for each tile of 16 columns and each block along k those of the columns 0, 8,
/// 1, 9, … 7, 15. Zero points of the steps' type are bytes, moved as these are. Blocks behind the last one have zeros.
struct StepParameters {
  int64_t blocks = 0, n = 0;
  int64_t pitch = 0;        ///< blocks from one tile to the next: those that whole chunks of steps begin in
  bool transposed = false;  ///< the model's matrix is [n, blocks]

  int64_t tiles() const { return (n + StepFragments::tile_columns - 1) / StepFragments::tile_columns; }
  int64_t elements() const { return tiles() * pitch * StepFragments::tile_columns; }
};

/// The constant at input `i` of the region in that layout. Valid as long as `constants` lives.
std::span<const std::byte> pack_steps(const RegionView& region, size_t i, const StepFragments& layout,
                                      PackedConstants& constants);
/// The same of a scale, or of zero points, of a float type or of that of steps.
std::span<const std::byte> pack_step_parameters(const RegionView& region, size_t i, const StepParameters& layout,
                                                PackedConstants& constants);

/// The model's tensor; undefined when the layout is none of these. Throws Error(corrupt_engine) when it does not fit
/// the bytes or the shape.
Tensor unpack_step_fragments(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft
