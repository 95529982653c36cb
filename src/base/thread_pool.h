// A persistent pool for data-parallel loops: static partitions, a barrier that spins and then parks.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace camshaft {

/// Runs one parallel loop at a time over `size()` threads, the calling thread among them. Not re-entrant, and one
/// caller at a time (else Error(internal)): each Context owns its pool.
class ThreadPool {
 public:
  /// `threads` >= 1 counts the caller: 1 starts no thread. Throws Error(invalid_argument) for threads < 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }

  /// Calls body(thread_index) once on every thread (0 = the caller) and returns when all are done. Allocates nothing.
  /// The first exception thrown by a body is rethrown here.
  template <class Body>
  void run(Body&& body) {
    run_erased(const_cast<void*>(static_cast<const void*>(&body)),
               [](void* b, int t) { (*static_cast<std::remove_reference_t<Body>*>(b))(t); });
  }

  /// Splits [0, count) into one contiguous range a thread, at multiples of `grain`, and calls body(begin, end) for the
  /// non-empty ones. Runs inline when there is only one piece. A grain below 1
  /// counts as 1.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, Body&& body) {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    const int64_t pieces = count / grain + (count % grain != 0);
    if (threads_ == 1 || pieces <= 1) {
      body(int64_t{0}, count);
      return;
    }
    run([&](int thread) {
      const int64_t begin = pieces * thread / threads_ * grain;
      const int64_t end = pieces * (thread + 1) / threads_ * grain;
      if (begin < end) body(begin, end < count ? end : count);
    });
  }

 private:
  using ErasedBody = void (*)(void*, int);
  void run_erased(void* body, ErasedBody call);

  struct State;
  int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace camshaft
