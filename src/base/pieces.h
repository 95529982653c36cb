// Parallel loops that can be cancelled.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"
#include "base/work_scope.h"

namespace camshaft {

/// ThreadPool::parallel_for, but that each thread calls body(begin, end) for one piece of its range after the other,
/// with a cancellation_point() before each. A piece is 16 grains: a grain being what is worth waking a thread, what a
/// body sets up for itself does not count then.
template <class Body>
void for_pieces(ThreadPool& pool, int64_t count, int64_t grain, Body&& body) {
  const int64_t piece = 16 * std::clamp<int64_t>(grain, 1, std::max<int64_t>(count, 1));
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += piece) {
      cancellation_point();
      body(first, std::min(first + piece, end));
    }
  });
}

}  // namespace camshaft
