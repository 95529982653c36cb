// Kernels that touch what they may not.
#pragma once

namespace emulator {

/// From now on a kernel's bad access, division by zero or misaligned pointer ends the launch with a message.
void catch_faults();

}  // namespace emulator
