#include "backends/cuda/driver/forked_child.h"

#include <pthread.h>

#include <atomic>

#include "base/error.h"

namespace camshaft::cuda {

namespace {

std::atomic<bool> forked{false};

}  // namespace

void note_use_of_gpu() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  if (registered != 0) throw Error(ErrorCode::out_of_memory, "out of memory while opening a GPU");
}

bool is_forked_child() {
  return forked.load(std::memory_order_relaxed);
}

void refuse_in_forked_child() {
  if (is_forked_child())
    throw Error(ErrorCode::unsupported,
                "this process was forked by one that uses a GPU, and CUDA does not work in such a child: start "
                "processes by spawn (or exec), or load the engine in the child alone");
}

}  // namespace camshaft::cuda
