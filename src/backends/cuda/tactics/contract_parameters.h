// The parameters of contraction kernels, as device/contract_parameters.cuh has them.
#pragma once

#include <cstdint>

#include "backends/cuda/tactics/divisor.h"

namespace camshaft::cuda::kernel_parameters {

using u32 = uint32_t;
using i32 = int32_t;
using i64 = long long;

#include "backends/cuda/device/contract_parameters.cuh"

}  // namespace camshaft::cuda::kernel_parameters
