#include "cluster.h"

#include "block_runner.h"

namespace emulator {

bool Cluster::meet() {
  std::unique_lock lock(mutex_);
  if (someone_left_) return false;
  const unsigned round = round_;
  if (++arrived_ == blocks_) {
    arrived_ = 0;
    ++round_;
    wake_.notify_all();
    return true;
  }
  wake_.wait(lock, [&] { return round_ != round || someone_left_; });
  return round_ != round && !launch_.failed();
}

void Cluster::leave() {
  const std::lock_guard lock(mutex_);
  someone_left_ = true;
  wake_.notify_all();
}

}  // namespace emulator
