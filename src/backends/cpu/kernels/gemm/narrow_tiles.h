// Many rows in bytes (narrow_rounded.h) times weights of few bits, by a unit that multiplies tiles (matrix_tiles.h). A
// thread makes bytes of a panel's codes, less their zero points, once for all of its rows; sums of a segment are then
// products of two tiles by two, and the same whole numbers that rounded_panel_sums() has, multiplied in the same order.
// So a row has the same bits either way. Internal to the kernels.
//
// Two thirds of the time go to what follows each segment's sums: they leave the tiles by memory, and become floats.
#pragma once

#include "backends/cpu/kernels/gemm/matrix_tiles.h"
#include "backends/cpu/kernels/gemm/narrow_rounded.h"

namespace camshaft::cpu {

/// Whether there is such a unit, enough rows for it, and bytes hold the codes.
bool narrow_takes_tiles(const NarrowGemm& args);
/// The same, as far as the weights and the number of rows tell: what there is memory for.
bool narrow_may_take_tiles(const NarrowWeights& w, int64_t m);

/// Of a panel's bytes.
int64_t tile_codes_bytes(const NarrowWeights& w);
/// Writes them: [segments, words of a segment, columns of the panel, 4].
void make_tile_codes(const NarrowGemm& args, int64_t panel, int8_t* codes);
/// What rounded_panel_sums() computes.
void tile_panel_sums(const NarrowGemm& args, const RoundedRows& rows, int64_t panel, const int8_t* codes,
                     const RoundedPart& part, int64_t row0, int64_t row1, float* sums, int64_t ld, MatrixTiles& tiles);

}  // namespace camshaft::cpu
