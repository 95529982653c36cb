// The unit of a core that multiplies whole tiles: which products it has here, and who may leave it out.
//
// Intel's AMX has eight registers of 16 rows of 64 bytes. Linux gives their memory to a process that asks for it, once;
// its threads have it from then on.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

enum class MatrixUnit : uint8_t {
  none,
  amx,
  portable,  ///< the same in plain C++: what tests choose, so that packing, edges and epilogues run on any machine
};

/// Products that a unit may have.
enum class TileProduct : uint8_t {
  u8_s8,  ///< quads of unsigned by quads of signed bytes, sums in i32
  s8_s8,
  bf16_pairs,  ///< sums in f32
};

/// What multiplies tiles on this machine, for the instruction set in use: bytes of either kind, pairs of bf16.
MatrixUnit byte_matrix_unit();
MatrixUnit pair_matrix_unit();

/// What the two say from now on, in all threads, whatever the machine has; `none` leaves AMX out.
void set_matrix_unit_for_test(MatrixUnit unit);
/// They say again what there is.
void reset_matrix_unit_for_test();

}  // namespace camshaft::cpu
