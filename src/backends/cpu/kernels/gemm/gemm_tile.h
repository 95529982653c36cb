// Arguments of one register tile (gemm_tile-inl.h). Internal to the kernels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu {

struct TileArgs {
  const float* const* rows;  ///< row r of tap t starts at rows[t * tap_stride + r] + k_offset
  int64_t row_step;          ///< floats from each row to the next, of one tap alone; 0: they lie anywhere
  int64_t tap_stride;
  const float* zeros;  ///< a row of zeros: a tap whose rows are all this one is left out. Null: there is none
  int64_t taps;
  int64_t k_offset;
  int64_t depth;       ///< floats per tap in this K block
  const float* b;      ///< the K block of one panel
  uintptr_t prefetch;  ///< where the next lines lie (address_of(), cache_line.h)
  int prefetch_lines;  ///< cache lines to prefetch every four steps of K
  bool prefetch_near;  ///< into L1, for this tile itself; else into L2, for later ones
  int next_rows;       ///< rows of the next tile, behind this one's in `rows`, to ask for: nothing has read them yet
  int tail_lanes;      ///< lanes of the last vector that exist in C

  float* c;  ///< first column of the panel, row 0 of C
  int64_t ldc;
  int64_t row0;
  const int64_t* out_rows;                 ///< rows of C, or null: row0, row0 + 1, ...
  bool accumulate;                         ///< add what C holds
  bool last;                               ///< last K block: apply the epilogue
  const float* bias;                       ///< at the panel's first column
  Residual residuals[1 + kMoreResiduals];  ///< at the panel's first column, row 0
  int residual_count;
  bool clamp;
  float lo, hi;
};

}  // namespace camshaft::cpu
