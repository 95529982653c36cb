// How often threads ask whether they are to stop, for tests that hold operators and kernels to asking often enough.
#pragma once

#include <cstdint>

namespace camshaft {

/// How many times the calling thread has passed a cancellation_point(), since it was started.
int64_t cancellation_points_passed();

}  // namespace camshaft
