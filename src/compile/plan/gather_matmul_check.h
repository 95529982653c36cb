// The check of the concrete shapes of products whose rows choose their matrix (see shape_check.h).
#pragma once

#include "compile/backend.h"

namespace camshaft {

/// Of an ops::GatherMatMul. Throws Error(invalid_argument).
void check_gather_matmul(const KernelShapes& shapes);

}  // namespace camshaft
