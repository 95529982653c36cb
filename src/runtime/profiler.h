// Where the time of a run goes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/device_id.h"

namespace camshaft {

/// Time of one layer (a step of the plan), added up over the runs since the last reset.
struct LayerTime {
  std::string name;                  ///< of the tensor it computes
  std::string op;                    ///< "conv", "matmul", "pointwise", …
  std::string tactic;                ///< how it was implemented
  std::vector<std::string> sources;  ///< the model's nodes it came from
  double seconds = 0;
  int64_t runs = 0;
  /// It depends on no input, and runs in the first run with a set of shapes alone; in all where its results are too
  /// large to be kept.
  bool at_binding = false;
};

/// Something that took time in a run. Seconds since Profiler::keep_runs().
struct TimeSpan {
  double start = 0, seconds = 0;
};

/// A layer in one run.
struct LayerSpan {
  int64_t layer = 0;  ///< its place in Profiler::layers()
  DeviceId device;    ///< the host: the thread of the run, with those that help it; a GPU: the run's stream there
  TimeSpan time;
};

/// When what happened in one run, until its last layer was done.
struct RunSpan {
  TimeSpan time;
  int64_t thread = 0;             ///< of the host, by the system's number, that the run was on
  std::vector<LayerSpan> layers;  ///< those that ran; in the order in which they began on each device
};

/// Collects layer times of the contexts it is set on (Context::set_profiler). One context at a time.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  /// In execution order.
  const std::vector<LayerTime>& layers() const { return layers_; }
  /// Seconds of all layers together.
  double total_seconds() const;
  void reset();

  /// Keeps when each layer began in the next runs, so many at most, instead of those kept before; the clock starts now.
  void keep_runs(size_t most);
  const std::vector<RunSpan>& runs() const { return runs_; }

 private:
  friend class Executor;  // of the runtime, which fills it
  bool keeps_run() const { return runs_.size() < most_runs_; }
  /// Since keep_runs().
  double seconds_until(Clock::time_point moment) const {
    return std::chrono::duration<double>(moment - clock_start_).count();
  }

  std::vector<LayerTime> layers_;
  size_t most_runs_ = 0;
  Clock::time_point clock_start_;
  std::vector<RunSpan> runs_;
};

}  // namespace camshaft
