// One line on the terminal that says how far a long operation is.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace camshaft::tools {

/// Rewrites one line on stderr, from a second after its construction on, and only on a terminal; the destructor wipes
/// it. Safe to call from any thread.
class Progress {
 public:
  Progress();
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows "optimising 30%". Costs a clock reading when there is nothing to do.
  void update(std::string_view stage, double fraction);
  void clear();
  /// For BuildOptions::set_progress; must not outlive this.
  std::function<void(std::string_view, double)> callback() {
    return [this](std::string_view stage, double fraction) { update(stage, fraction); };
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::mutex mutex_;
  Clock::time_point next_;
  bool terminal_;
  bool shown_ = false;
  std::string stage_;
};

}  // namespace camshaft::tools
