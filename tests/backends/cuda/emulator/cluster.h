// Blocks that run at once and see each other's shared memory.
#pragma once

#include <condition_variable>
#include <mutex>

namespace emulator {

struct Launch;

/// Each of its blocks runs on a host thread of its own.
class Cluster {
 public:
  static constexpr unsigned most_blocks = 16, most_portable_blocks = 8;

  Cluster(const Launch& launch, unsigned blocks) : launch_(launch), blocks_(blocks) {}
  unsigned blocks() const { return blocks_; }
  /// Of block `rank`. Others see it once all have met.
  unsigned char* shared[most_blocks] = {};

  /// Waits for all blocks; false when one of them has finished, or the launch failed: they will never meet.
  bool meet();
  /// Of a block that has ended: nobody waits for it.
  void leave();

 private:
  const Launch& launch_;
  unsigned blocks_;
  std::mutex mutex_;
  std::condition_variable wake_;
  unsigned arrived_ = 0, round_ = 0;
  bool someone_left_ = false;
};

}  // namespace emulator
