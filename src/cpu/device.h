// What machine this is.
#pragma once

#include "compile/backend.h"

namespace camshaft::cpu {

/// Brand, instruction set, cores that this process may use, memory.
DeviceInfo describe_cpu();

}  // namespace camshaft::cpu
