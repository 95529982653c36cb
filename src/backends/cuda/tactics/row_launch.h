// How rows are shared out among threads.
#pragma once

#include "backends/cuda/driver/module.h"

namespace camshaft::cuda {

/// `lanes` threads a row: a power of two, up to 32 with several rows in a block, or the whole block.
struct RowLaunch {
  unsigned lanes = 1;
  LaunchSize size;
};

/// For `rows` rows of `units` steps, of which a thread should do `per_thread` where there are rows enough to fill
/// `multiprocessors`, and fewer where there are not. Blocks have at most `most_threads`, a power of two from 32 on. A
/// row is given at least units / per_thread lanes, as far as the block goes.
RowLaunch row_launch(int64_t rows, int64_t units, int64_t per_thread, unsigned most_threads, int multiprocessors);

}  // namespace camshaft::cuda
