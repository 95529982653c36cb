#include "server/core/reaper.h"

#include <malloc.h>

namespace camshaft::server {

Reaper::~Reaper() {
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return living_ == 0; });
    ending_ = true;
  }
  work_.notify_all();
  thread_.join();
}

std::shared_ptr<Model> Reaper::adopt(std::unique_ptr<Model> model, std::function<void()> gone) {
  const std::lock_guard lock(mutex_);
  ++living_;
  return {model.release(), [this, gone = std::move(gone)](Model* dead) {
            {
              const std::lock_guard inner(mutex_);
              dead_.push_back({std::unique_ptr<Model>(dead), gone});
            }
            work_.notify_one();
          }};
}

bool Reaper::wait_for_all(std::chrono::seconds most) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, most, [&] { return living_ == 0; });
}

void Reaper::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return ending_ || !dead_.empty(); });
    if (dead_.empty()) return;
    std::vector<Dead> dead;
    dead.swap(dead_);
    lock.unlock();
    for (Dead& each : dead) {
      each.model.reset();
      if (each.gone) each.gone();
    }
    // What a model had goes back to the system, not to the next one that may never come.
    malloc_trim(0);
    lock.lock();
    living_ -= dead.size();
    if (living_ == 0) idle_.notify_all();
  }
}

}  // namespace camshaft::server
