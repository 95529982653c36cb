// What contractions are given, and what epilogues of other kernels read.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Where the rows of a result lie in an operand: a row's number is split into positions along up to 6 axes.
struct RowMap {
  u32 rank;
  Divisor size[6];
  i64 stride[6];  ///< elements
};

/// What an epilogue reads beside the sum.
struct EpilogueOperand {
  const void* data;
  i64 column_stride;  ///< 0 or 1, or more for transposed ones
  u32 row_stride;     ///< of one that lies as the result does
  u32 vector;         ///< whether 8 columns from a multiple of 8 on are consecutive and aligned
  RowMap rows;
};

constexpr int most_epilogue_operands = 12;
constexpr int most_prologue_operands = 4;

/// Of shared memory, for the barrier that blocks of a cluster send sums to.
constexpr u32 cluster_barrier_bytes = 16;

/// The order of tiles: some rows of them make a panel, through which blocks go by columns.
struct TilePanels {
  u32 count;
  Divisor tiles;            ///< of a whole panel
  Divisor rows, last_rows;  ///< of tiles, or of clusters: of a panel, and of the last one
};

/// C[z][m, n] = Σ_k A[z][m, k] · B[z][n, k] for every z, a batch of matrices or the groups of a convolution.
struct ContractParameters {
  const void* a;
  const void* b;
  void* c;
  void* partial;     ///< sums of several blocks that share a tile: [tile][split][rows][columns]
  const i32* begin;  ///< of sums of bytes, one a column: what they are added to
  u32* counters;     ///< one a tile: how many have finished; 0 between launches
  u32 m, n, k;
  Divisor tiles, tiles_n;  ///< of one z, and of its rows of tiles
  u32 k_tiles, k_tiles_per_split;
  u32 all_tiles;      ///< of all z; of blocks in clusters, which have several tiles together, so many of those
  TilePanels panels;  ///< of blocks that stay
  u32 is_cluster;     ///< the blocks that share a tile see each other's shared memory, …
  u32 parts;          ///< … where they leave sums for each other, so many bytes from its beginning on
  u32 b_is_constant;  ///< no kernel before writes it
  u32 fetches;        ///< what the epilogue reads beside the sums is asked for while they are made

  RowMap a_batch, b_batch;  ///< by z
  i64 a_row, a_column;      ///< elements between rows (pixels of a convolution) and along k
  i64 b_row, b_column;      ///< elements between columns of C and along k
  /// Whether 16 bytes along the stored axis are aligned (and windows have 16 taps at most an axis).
  u32 a_vector, b_vector;
  u32 c_row_step, c_column_step;  ///< rows and columns of C from one z to the next
  u32 c_row;                      ///< elements between rows of C
  u32 c_vector;

  // A is made of windows: m is (image, y, x) of the result.
  Divisor out_pixels, out_w;
  u32 in_h, in_w;
  i32 pad_top, pad_left;
  u32 patch_columns;     ///< of the result, that a block computes from one patch of the image, …
  Divisor patch_pieces;  ///< … of which a row has so many pieces of 8 pixels in shared memory

  // B is made of weights of few bits, as StepSlices says.
  const void* scales;
  const void* zeros;  ///< of each block and column; else it is step_zero everywhere
  u32 step_zero, step_chunks, step_blocks;
  Divisor matrices_of_block;

  EpilogueOperand operand[most_epilogue_operands];
};

/// What a driver says of how a tensor lies (CUtensorMap).
struct alignas(64) TensorMap {
  u64 words[16];
};

/// Of A, [rows][k], and of B, [parts of 32 columns][4][4][2][k]: column 8 q + 2 p + e of a part is row [p][q][e], so
/// that columns come as SUMS from registers need them.
struct TensorMaps {
  TensorMap a, b;
};

}  // namespace camshaft::cuda
