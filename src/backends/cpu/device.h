// What machine this is.
#pragma once

#include "compile/backend.h"

namespace camshaft::cpu {

/// Brand, instruction set, cores that this process may use, memory.
DeviceInfo describe_cpu();

/// What users of a CPU with this instruction set should know; empty when it has what kernels want.
std::string isa_warning(const std::string& isa);

}  // namespace camshaft::cpu
