#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft {

void for_each_parallel(int threads, size_t count, const std::function<void(size_t i)>& work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  ThreadPool pool(static_cast<int>(std::min(static_cast<size_t>(std::max(threads, 0)), std::max<size_t>(count, 1))));
  pool.run([&](int) {
    // Pieces are taken in order: all before one that failed have been taken, so that the first error is always the
    // same.
    for (size_t i = 0; !failed && (i = next++) < count;) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        failed = true;
      }
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace camshaft
