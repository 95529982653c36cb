// How fast a GPU can be at most.
#pragma once

#include "backends/cuda/driver/device.h"
#include "compile/backend.h"

namespace camshaft::cuda {

/// By its clock and its number of multiprocessors, from what NVIDIA's manuals say that one of each generation does in a
/// clock cycle (DeviceFeatures::rates). What is unknown is 0: clocks that the driver does not tell, generations that
/// are newer than that table.
DeviceLimits limits_of(const DeviceFacts& facts);

}  // namespace camshaft::cuda
