// Calls of plugins that take long, named in the log: one that never returns cannot be stopped, but found.
#pragma once

#include <chrono>
#include <list>
#include <string>

namespace camshaft::plugin {

/// A call that is running, for as long as this lives. Beyond `limit` a warning says so, once.
class RunningCall {
 public:
  static constexpr std::chrono::seconds limit{30};
  /// `who`: "the plugin example::Gelu (libgelu.so)", which must live as long.
  explicit RunningCall(const std::string& who, std::chrono::milliseconds after = limit);
  ~RunningCall();
  RunningCall(const RunningCall&) = delete;
  RunningCall& operator=(const RunningCall&) = delete;

 private:
  struct Entry {
    const std::string* who = nullptr;
    std::chrono::steady_clock::time_point warned_at;
    std::chrono::milliseconds after{};
    bool is_warned = false;
  };
  struct Watcher;
  static Watcher& watcher();
  std::list<Entry>::iterator entry_;
};

}  // namespace camshaft::plugin
