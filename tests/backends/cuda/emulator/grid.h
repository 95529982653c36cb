// Runs the blocks of a launch on host threads.
#pragma once

#include "block_runner.h"

namespace emulator {

/// All blocks, begun in order; as many at once as there are multiprocessors, or all of them when `together`. Blocks of
/// a failed launch that have not begun are left out. One launch at a time.
void run_grid(Launch& launch, bool together);

}  // namespace emulator
