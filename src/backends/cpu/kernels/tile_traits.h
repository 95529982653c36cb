// What kernels and tactics know about each instruction set: one table, a row for each. Kernels read the row of the
// target that they are compiled for (kTarget in tile_traits-inl.h), tactics and packing that of the target that runs
// (tile_traits()). A new instruction set is a row here, its bit in targets.h, and its instructions beyond Highway's in
// tile_traits-inl.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/targets.h"
// After targets.h.
#include <hwy/detect_targets.h>

namespace camshaft::cpu {

/// The register tiles of a kernel: rows[v - 1] is the height of the tallest that is v vectors wide, v <= vectors.
struct TileShape {
  int vectors;
  int rows[4];
};

/// Shapes for as many vector registers as an instruction set has. Sums, operands and addresses must fit; among what
/// does, measurements chose.
struct RegisterTiles {
  int registers;
  TileShape product;        ///< of f32: sums, a row of B, an element of A. Its width is that of packed panels
  TileShape attention;      ///< as product; narrow tiles are tall, so that enough sums are under way at a time
  TileShape byte_product;   ///< products of bytes, four at once or by pairs of 16 bits
  TileShape stem_conv;      ///< pixels of convolutions of few input channels
  int dot_rows[4];          ///< rows of a tile of dot products, by its columns less 1
  int unpacked_vectors[4];  ///< vectors of columns of a unpacked product, by its rows less 1
  int recurrent_rows;       ///< rows of a recurrent cell's product, four vectors wide
  int recurrent_streams;    ///< its blocks of weights that are read side by side
  int pool_vectors;         ///< vectors of channels of a pooling window 3 wide at most
  int plane_vectors;        ///< vectors of neighbours of four channels of a transposed convolution on planes
};

inline constexpr RegisterTiles kTilesOf16 = {.registers = 16,
                                             .product = {2, {8, 6}},
                                             .attention = {2, {8, 6}},
                                             .byte_product = {2, {8, 6}},
                                             .stem_conv = {2, {8, 6}},
                                             .dot_rows = {8, 4, 4, 2},
                                             .unpacked_vectors = {4, 4, 2, 2},
                                             .recurrent_rows = 2,
                                             .recurrent_streams = 2,
                                             .pool_vectors = 2,
                                             .plane_vectors = 2};

inline constexpr RegisterTiles kTilesOf32 = {.registers = 32,
                                             .product = {4, {10, 10, 8, 6}},
                                             .attention = {4, {12, 12, 8, 6}},
                                             .byte_product = {4, {10, 10, 8, 6}},
                                             .stem_conv = {4, {16, 14, 8, 6}},
                                             .dot_rows = {8, 8, 8, 4},
                                             .unpacked_vectors = {8, 4, 4, 4},
                                             .recurrent_rows = 6,
                                             .recurrent_streams = 4,
                                             .pool_vectors = 4,
                                             .plane_vectors = 4};

/// Which products of unsigned by signed bytes an instruction set has beside those of one element at a time.
enum class ByteProduct {
  none,
  avx_vnni,    ///< pairs of 16 bits (`vpmaddwd`); four bytes (`vpdpbusd`) where the machine has AVX-VNNI
  avx512_vnni  ///< the same with AVX-512 VNNI
};

struct TileTraits {
  int64_t target;   ///< Highway's bit
  const char* isa;  ///< as DeviceInfo::isa names it
  int vector_bytes;
  RegisterTiles tiles;
  /// Product tiles of rows a constant step apart, two of which may share a vector of which half is empty; none where
  /// two rows cannot (gemm_tile_even-inl.h).
  TileShape even_product;
  int depthwise_pixels;  ///< neighbouring outputs of a depthwise convolution that share weights and inputs
  ByteProduct byte_product;
  bool bf16_pairs;     ///< multiplies pairs of bf16 where the machine does (AVX512_BF16)
  bool partial_moves;  ///< loads and stores some lanes of a vector without touching the memory of others
  bool conversions;    ///< f16 and bytes from and to f32 by vectors
  bool second_if_nan;  ///< min and max give the second operand where one is NaN
  bool powers_of_two;  ///< x times 2^n in one instruction
  bool tables_of_32;   ///< looks up the elements of two registers

  /// f32 in a vector.
  constexpr int lanes() const { return vector_bytes / 4; }
};

inline constexpr TileTraits kTargets[] = {
    {.target = HWY_AVX3,
     .isa = "avx512",
     .vector_bytes = 64,
     .tiles = kTilesOf32,
     .even_product = {4, {16, 14, 8, 6}},
     // Rows of 14, 28, 56 and 112 pixels are whole tiles. 5x5 runs at 250 GFLOP/s on a core that does 266, with 8 at
     // 215.
     .depthwise_pixels = 14,
     .byte_product = ByteProduct::avx512_vnni,
     .bf16_pairs = true,
     .partial_moves = true,
     .conversions = true,
     .second_if_nan = true,
     .powers_of_two = true,
     .tables_of_32 = true},
    {.target = HWY_AVX2,
     .isa = "avx2",
     .vector_bytes = 32,
     .tiles = kTilesOf16,
     .even_product = {},
     .depthwise_pixels = 8,
     .byte_product = ByteProduct::avx_vnni,
     .bf16_pairs = false,
     .partial_moves = true,
     .conversions = true,
     .second_if_nan = true,
     .powers_of_two = false,
     .tables_of_32 = false},
    {.target = HWY_NEON,
     .isa = "neon",
     .vector_bytes = 16,
     .tiles = kTilesOf32,
     .even_product = {},
     .depthwise_pixels = 14,
     .byte_product = ByteProduct::none,
     .bf16_pairs = false,
     .partial_moves = false,
     .conversions = true,
     .second_if_nan = false,
     .powers_of_two = false,
     .tables_of_32 = false},
    // The portable baseline: Highway's emulation of 128 bits, or of one element where the compiler cannot have that.
    {.target = HWY_EMU128,
     .isa = "baseline",
     .vector_bytes = 16,
     .tiles = kTilesOf16,
     .even_product = {},
     .depthwise_pixels = 2,
     .byte_product = ByteProduct::none,
     .bf16_pairs = false,
     .partial_moves = false,
     .conversions = false,
     .second_if_nan = false,
     .powers_of_two = false,
     .tables_of_32 = false},
    {.target = HWY_SCALAR,
     .isa = "baseline",
     .vector_bytes = 4,
     .tiles = kTilesOf16,
     .even_product = {},
     .depthwise_pixels = 2,
     .byte_product = ByteProduct::none,
     .bf16_pairs = false,
     .partial_moves = false,
     .conversions = false,
     .second_if_nan = false,
     .powers_of_two = false,
     .tables_of_32 = false},
};

/// The row of one of Highway's targets; does not compile for one that has none.
consteval const TileTraits& traits_of(int64_t target) {
  for (const TileTraits& row : kTargets)
    if (row.target == target) return row;
  throw "this target has no row in kTargets";
}

/// The row of the target that this machine runs.
const TileTraits& tile_traits();

}  // namespace camshaft::cpu
