// What products with weights of few bits are given.
#pragma once

#include "backends/cuda/device/contract_parameters.h"

namespace camshaft::cuda {

/// C[m, n] = Σ_k X[m, k] · (steps[k, n] - zero) · scale, with weights as compile/constants/step_fragments.h lays them
/// out.
struct WeightOnlyParameters {
  const void* x;
  const void* steps;
  const void* scales;
  const void* zeros;  ///< of each block and column, or null: then it is `zero` everywhere
  void* c;
  f32* partial;   ///< sums of several blocks that share columns: [columns and rows][split][row][column]
  u32* counters;  ///< one for each of those: how many have finished; 0 between launches
  u32 m, n, k;
  u32 x_row;                  ///< elements between rows of X
  u32 x_vector;               ///< whether 16 bytes from a multiple of 8 elements on are aligned, and there as a whole
  u32 zero;                   ///< as steps are stored: moved up, of signed types
  u32 chunks;                 ///< along k
  u32 chunks_of_split;        ///< that a block of those that share columns takes
  u32 slab;                   ///< of them, whose rows of X are in shared memory at a time
  u32 rows;                   ///< of X that a block takes
  Divisor matrices_of_block;  ///< 16 elements of k each, that have a scale of their own
  u32 blocks;                 ///< of scales, from one tile of columns to the next
  u32 is_cluster;             ///< the blocks that share columns see each other's shared memory, …
  u32 parts;                  ///< … where they leave sums for the first of them, so many bytes from its beginning on
  u32 c_row;                  ///< elements between rows of C
  u32 c_vector;

  EpilogueOperand before[most_prologue_operands];  ///< what the rows of X are computed from, where they are
  EpilogueOperand operand[most_epilogue_operands];
};

/// The weights as a matrix of floats: rows of k, one for each column.
struct ExpandParameters {
  const void* steps;
  const void* scales;
  const void* zeros;
  void* out;
  u32 n, k, pitch;  ///< elements of a row of `out`, an even number; those from k on are 0
  f32 zero;         ///< where there is one for all, as steps are stored
  f32 moved;        ///< by so much these are moved up
  u32 blocks;       ///< of scales, from one tile of columns to the next
  Divisor chunks_of_tile, matrices_of_block;
};

}  // namespace camshaft::cuda
