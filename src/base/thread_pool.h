// Data-parallel loops on the threads of a set of workers: static partitions, a barrier that spins and then parks.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace camshaft {

class Workers;

/// Runs one parallel loop at a time over `size()` threads, the calling thread among them. Not re-entrant, and one
/// caller at a time (else Error(internal)): each Context has its own, though the threads behind them may be shared.
///
/// In a forked child, where no thread but the forking one exists, the next loop or session starts new workers.
class ThreadPool {
 public:
  /// With workers of its own. `threads` >= 1 counts the caller: 1 starts no thread. Throws like
  /// checked_threads() of workers.h, and Error(out_of_memory) where they cannot be started.
  explicit ThreadPool(int threads);
  /// With workers that others use too, at most `threads` (and workers->limit()) at once, the caller among them. They
  /// are taken in a Session; outside of one the caller is alone. Throws like above.
  ThreadPool(std::shared_ptr<Workers> workers, int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// The threads of a loop: all that there are, or what a session has at the moment. Changes in a Session's constructor
  /// and destructor and in adapt() alone.
  int size() const { return size_; }
  /// What size() can be at most; scratch memory for so many threads is enough for any size().
  int most() const { return most_; }

  /// As long as one lives the pool has its share of workers that are shared. Costs some 100 ns and does not wait: a
  /// pool that finds all workers busy has its caller alone. Nothing for a pool with workers of its own.
  class Session {
   public:
    explicit Session(ThreadPool& pool) : pool_(pool) { pool_.begin_session(); }
    ~Session() { pool_.end_session(); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

   private:
    ThreadPool& pool_;
  };
  /// Between two kernels of a session: gives workers up to others that have come since, or takes what has become free.
  /// One load where nothing has changed.
  void adapt();

  /// Calls body(thread_index) once for each thread (0 = the caller) and returns when all are done. Who is done takes
  /// parts that nobody has begun. Allocates nothing. The first exception thrown by a body is rethrown here.
  template <class Body>
  void run(Body&& body) {
    run(size_, body);
  }

  /// The same on the first `threads` threads, at most size(); the others are not woken.
  template <class Body>
  void run(int threads, Body&& body) {
    run_erased(threads, const_cast<void*>(static_cast<const void*>(&body)),
               [](void* b, int t) { (*static_cast<std::remove_reference_t<Body>*>(b))(t); });
  }

  /// Splits [0, count) into one contiguous range a thread, at multiples of `grain`, and calls body(begin, end) for the
  /// non-empty ones, on no more threads than there are grains. Runs inline when there is only one. A grain below 1
  /// counts as 1.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, Body&& body) {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    const int64_t grains = count / grain + (count % grain != 0);
    if (size_ == 1 || grains <= 1) {
      body(int64_t{0}, count);
      return;
    }
    const int threads = grains < size_ ? static_cast<int>(grains) : size_;
    run(threads, [&](int thread) {
      const int64_t begin = grains * thread / threads * grain;
      const int64_t end = grains * (thread + 1) / threads * grain;
      if (begin < end) body(begin, end < count ? end : count);
    });
  }

 private:
  using ErasedBody = void (*)(void*, int);
  void run_erased(int threads, void* body, ErasedBody call);
  void begin_session();
  void end_session();

  struct Team;
  int size_ = 1;
  int most_;
  bool owns_workers_;
  std::shared_ptr<Workers> workers_;
  std::unique_ptr<Team> team_;
};

}  // namespace camshaft
