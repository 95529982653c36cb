// Timing work by events in a stream.
#pragma once

#include <string>

#include "backends/cuda/driver/module.h"
#include "backends/cuda/driver/stream.h"
#include "compile/device_queue.h"

namespace camshaft::cuda {

/// The kernel "touch" (device/touch.cuh) as CUDA C++ text.
std::string touch_text();

class Stopwatch final : public DeviceStopwatch {
 public:
  /// `touch`: the kernel of device/touch.cuh.
  Stopwatch(const Stream& stream, Function touch);
  void start() override { start_.record(stream_); }
  void stop() override { stop_.record(stream_); }
  double seconds() override {
    stop_.synchronize();
    return stop_.seconds_since(start_);
  }
  void touch(std::byte* memory, size_t bytes, bool rewrite) override;
  size_t cache_bytes() const override { return static_cast<size_t>(stream_.device().facts().l2_bytes); }

 private:
  const Stream& stream_;
  Event start_, stop_;
  Function touch_;
};

}  // namespace camshaft::cuda
