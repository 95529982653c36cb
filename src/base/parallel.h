// Independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace camshaft {

/// Calls work(i) for every i below `count` on at most `threads` threads, which take one after the other: for pieces of
/// milliseconds and more, of any lengths. What the work of the least i throws is rethrown when all have ended; nothing
/// new is begun meanwhile. Throws Error(invalid_argument) for threads < 1.
void for_each_parallel(int threads, size_t count, const std::function<void(size_t i)>& work);

}  // namespace camshaft
