// What products of few rows are given.
#pragma once

#include "backends/cuda/device/contract_parameters.h"

namespace camshaft::cuda {

/// C[m, n] = Σ_k X[m, k] · B[n, k]
struct FewRowsParameters {
  const void* x;
  const void* b;  ///< rows of 16 aligned bytes, with zeros behind k
  void* c;
  u32 m, n, k;
  u32 first_row;     ///< of the launch: a grid has no room for all of very many
  u32 x_row, b_row;  ///< elements between rows
  u32 x_vector;      ///< whether 16 bytes from a multiple of 8 elements on are aligned, and there as a whole
  u32 pieces;        ///< along k, of 512 bytes
  u32 slab;          ///< of them, whose rows of X are in shared memory at a time
  u32 c_row;         ///< elements between rows of C
  u32 c_vector;

  EpilogueOperand before[most_prologue_operands];  ///< what the rows of X are computed from, where they are
  EpilogueOperand operand[most_epilogue_operands];
};

}  // namespace camshaft::cuda
