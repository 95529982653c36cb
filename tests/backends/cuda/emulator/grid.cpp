#include "grid.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <thread>

#include "facts.h"

namespace emulator {

namespace {

// Threads that wait for work until the process ends; the library is never unloaded.
class Pool {
 public:
  /// Runs `work` on `count` threads at once, the calling one among them, and waits for them.
  void run(unsigned count, const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    while (threads_ + 1 < count) {
      ++threads_;
      std::thread([this] { serve(); }).detach();
    }
    work_ = &work;
    wanted_ = busy_ = count - 1;
    wake_.notify_all();
    lock.unlock();
    work();
    lock.lock();
    done_.wait(lock, [&] { return busy_ == 0; });
    work_ = nullptr;
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return wanted_ > 0; });
      --wanted_;
      const std::function<void()>& work = *work_;
      lock.unlock();
      work();
      lock.lock();
      if (--busy_ == 0) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const std::function<void()>* work_ = nullptr;
  unsigned threads_ = 0, wanted_ = 0, busy_ = 0;
};

}  // namespace

void run_grid(Launch& launch, bool together) {
  static auto* pool = new Pool;
  const Index size = launch.blocks;
  const uint64_t count = uint64_t{size.x} * size.y * size.z;
  std::atomic<uint64_t> next = 0;
  const auto work = [&] {
    for (uint64_t at = next++; at < count && !launch.failed(); at = next++) {
      const uint64_t row = at / size.x;
      BlockRunner::of_this_host_thread().run(launch,
                                             {static_cast<unsigned>(at % size.x), static_cast<unsigned>(row % size.y),
                                              static_cast<unsigned>(row / size.y)});
    }
  };
  if (const unsigned blocks = launch.cluster_blocks; blocks > 1) {
    for (uint64_t first = 0; first < count / blocks && !launch.failed(); ++first) {
      const uint64_t row = first / size.x;
      Cluster cluster(launch, blocks);
      std::atomic<unsigned> next_rank = 0;
      pool->run(blocks, [&] {
        const unsigned rank = next_rank++;
        BlockRunner::of_this_host_thread().run(
            launch,
            {static_cast<unsigned>(first % size.x), static_cast<unsigned>(row % (size.y / blocks)) * blocks + rank,
             static_cast<unsigned>(row / (size.y / blocks))},
            &cluster, rank);
      });
    }
    return;
  }
  const uint64_t at_once = together ? count : std::min<uint64_t>(count, facts::multiprocessors);
  if (at_once <= 1)
    work();
  else
    pool->run(static_cast<unsigned>(at_once), work);
}

}  // namespace emulator
