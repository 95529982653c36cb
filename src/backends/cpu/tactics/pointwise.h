// Pointwise regions as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cpu {

/// Whether there are vector loops for all types and functions of a program.
bool has_loops(const ScalarProgram& program);

/// Scalar programs as vector loops over tiles.
extern const CpuTactic pointwise_tactic;

}  // namespace camshaft::cpu
