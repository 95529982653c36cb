// For what takes epilogues apart: who reads an instruction, and what is left behind one.
#pragma once

#include "compile/region/epilogue_view.h"

namespace camshaft {

const ScalarInstruction& instruction_at(const ScalarProgram& program, int32_t i);
/// The one instruction that reads i, and once, if i is not the result; or -1.
int32_t sole_reader(const ScalarProgram& program, int32_t i);
/// The other operand of a function of two that `reader`, i's sole reader, applies; null where it does not apply that
/// one, in f32.
const ScalarInstruction* beside(const ScalarProgram& program, int32_t reader, int32_t i, ScalarFunction function);
/// The rest of an epilogue once `done` is what the kernel gives, in `type`.
EpilogueView rest_of(const EpilogueView& view, int32_t done, DType type);

}  // namespace camshaft
