// Work of a stream that was recorded, to be launched as one.
#pragma once

#include "compile/device_queue.h"
#include "cuda/stream.h"

namespace camshaft::cuda {

/// A CUDA graph, instantiated. Launching it takes a few microseconds however many kernels it has, and between these the
/// device loses less time than between launches. Must not outlive its stream.
class Recording final : public DeviceRecording {
 public:
  /// From now on what this thread puts into the stream is recorded and not done. Throws Error.
  static void begin(const Stream& stream);
  /// Ends the recording. Throws Error when something was called meanwhile that cannot be recorded.
  explicit Recording(const Stream& stream);
  ~Recording() override;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  void replay() override;

 private:
  const Stream& stream_;
  api::Handle executable_ = nullptr;
};

}  // namespace camshaft::cuda
