// Casts to 8 bits in programs.
#pragma once

#include <cstdint>
#include <optional>

#include "compile/region/scalar_program.h"

namespace camshaft::cuda {

/// Bytes that are the rounded value of an instruction, moved by a whole number: what f32_to_bytes() makes of four at a
/// time, and rounded_step() of one.
struct RoundedSteps {
  int32_t value = -1;  ///< an instruction of f32
  int zero = 0;
};

/// nullopt where instruction `i` is anything else.
std::optional<RoundedSteps> rounded_steps(const ScalarProgram& program, int32_t i);

}  // namespace camshaft::cuda
