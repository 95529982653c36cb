// Where the time of a run goes.
#pragma once

#include <memory>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/error.hpp"
#include "camshaft/record.hpp"
#include "camshaft/report.hpp"

namespace camshaft {
inline namespace v1 {

/// Collects layer times of the contexts it is set on (Context::set_profiler). One context at a time.
class Profiler {
 public:
  Profiler() {
    camshaft_profiler* made = nullptr;
    detail::check(camshaft_profiler_create(&made));
    handle_.reset(made);
  }

  /// In execution order.
  std::vector<LayerTime> layers() const {
    return detail::record_of([&](camshaft_record** layers) { return camshaft_profiler_layers(handle_.get(), layers); })
        .list(detail::layer_time);
  }
  /// Seconds of all layers together.
  double total_seconds() const {
    double total = 0;
    for (const LayerTime& layer : layers()) total += layer.seconds;
    return total;
  }
  /// Keeps when each layer began in the next runs, so many at most, instead of those kept before.
  void keep_runs(int64_t most) { detail::check(camshaft_profiler_keep_runs(handle_.get(), most)); }
  /// Those that were kept, in their order; starts are in seconds since keep_runs().
  std::vector<RunSpan> runs() const {
    return detail::record_of([&](camshaft_record** runs) { return camshaft_profiler_runs(handle_.get(), runs); })
        .list(detail::run_span);
  }
  void reset() { camshaft_profiler_reset(handle_.get()); }

  camshaft_profiler* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(camshaft_profiler* profiler) const { camshaft_profiler_free(profiler); }
  };
  std::unique_ptr<camshaft_profiler, Free> handle_;
};

}  // namespace v1
}  // namespace camshaft
