// An 8-bit product by a unit that multiplies tiles (matrix_unit.h). Internal to the kernels.
#pragma once

#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/kernels/gemm/int8_tile.h"
#include "backends/cpu/kernels/gemm/product_shares.h"

namespace camshaft::cpu {

/// Of one thread; a multiple of 64.
int64_t int8_tiles_scratch_bytes(const Int8Weights& weights, int64_t m, int64_t taps, bool blocks);
void int8_run_tiles(const Int8Problem& problem, const Share& share, const Int8Part& part, MatrixUnit unit,
                    void* scratch);

}  // namespace camshaft::cpu
