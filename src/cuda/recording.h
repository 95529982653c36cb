// Work of a stream that was recorded, to be launched as one.
#pragma once

#include "cuda/stream.h"

namespace camshaft::cuda {

/// A CUDA graph, instantiated. Launching it takes a few microseconds however many kernels it has, and between these the
/// device loses less time than between launches. Must not outlive its device.
class Recording {
 public:
  /// From now on what this thread puts into the stream, which is not the default one, is recorded and not done. Throws
  /// Error.
  static void begin(const Stream& stream);
  /// Ends the recording. Throws Error when something was called meanwhile that cannot be recorded.
  explicit Recording(const Stream& stream);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Puts it into a stream, the recorded one or another of the same device.
  void launch(const Stream& stream) const;

 private:
  const Device& device_;
  api::Handle executable_ = nullptr;
};

}  // namespace camshaft::cuda
