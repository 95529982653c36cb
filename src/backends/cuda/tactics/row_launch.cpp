#include "backends/cuda/tactics/row_launch.h"

#include <algorithm>
#include <bit>

#include "backends/cuda/tactics/narrow.h"

namespace camshaft::cuda {

namespace {

uint64_t power_of_two_from(int64_t n) {
  return std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1)));
}

}  // namespace

RowLaunch row_launch(int64_t rows, int64_t units, int64_t per_thread, unsigned most_threads, int multiprocessors) {
  constexpr unsigned warp = 32;
  constexpr int64_t threads_to_fill = 256;  // of a multiprocessor
  RowLaunch launch;
  const auto enough =
      narrow(std::min<uint64_t>(power_of_two_from((units + per_thread - 1) / per_thread), most_threads));
  const auto all = narrow(std::min<uint64_t>(power_of_two_from(units), most_threads));
  // Neighbouring lanes read neighbouring memory: a warp, or what part of it a row fills.
  launch.lanes = std::max(enough, std::min(all, warp));
  // More threads with less to do each are faster than fewer, as long as there is room for them: what a kernel that runs
  // for two microseconds waits for is its code and its operands.
  while (launch.lanes < all && rows * launch.lanes < threads_to_fill * multiprocessors) launch.lanes *= 2;
  if (launch.lanes > warp) {
    launch.size.threads = launch.lanes;
    launch.size.blocks = narrow(rows);
    return launch;
  }
  // Blocks of several rows start faster; small ones spread over more multiprocessors.
  unsigned threads = std::min(256U, most_threads);
  while (threads > warp && rows * launch.lanes < int64_t{2} * threads * multiprocessors) threads /= 2;
  const int64_t rows_of_block = threads / launch.lanes;
  launch.size.threads = threads;
  launch.size.blocks = narrow((rows + rows_of_block - 1) / rows_of_block);
  return launch;
}

}  // namespace camshaft::cuda
