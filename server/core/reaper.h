// Ends models on a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/core/model.h"

namespace camshaft::server {

/// The last one to hold a model may be a thread of that model, which cannot wait for itself to end. Safe from several
/// threads.
class Reaper {
 public:
  Reaper() : thread_([this] { work(); }) {}
  /// Waits for all models that were adopted.
  ~Reaper();

  /// `gone` is called after the model's end.
  std::shared_ptr<Model> adopt(std::unique_ptr<Model> model, std::function<void()> gone);
  /// Whether all models have ended by then.
  bool wait_for_all(std::chrono::seconds most);

 private:
  struct Dead {
    std::unique_ptr<Model> model;
    std::function<void()> gone;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::vector<Dead> dead_;
  size_t living_ = 0;
  bool ending_ = false;
  std::thread thread_;  // last
};

}  // namespace camshaft::server
