// Work of a stream that was recorded, to be launched as one.
#pragma once

#include <optional>
#include <vector>

#include "backends/cuda/driver/stream.h"

namespace camshaft::cuda {

/// Which kernels of a recording make which part of it.
class RecordingParts {
 public:
  /// What the stream has recorded since the part before is of none.
  void begin(const Stream& stream);
  /// What the stream has recorded since the part before, or begin(), is one.
  void finish(const Stream& stream);
  /// Of each part the node that is its kernel; null where it is not one kernel, or the driver is too old to say.
  const std::vector<api::Handle>& nodes() const { return nodes_; }

 private:
  struct Recorded {
    size_t count = 0;              // of nodes
    api::Handle latest = nullptr;  // null where it is not one
  };
  /// Nothing where the driver is too old to say.
  static std::optional<Recorded> recorded(const Stream& stream);

  std::vector<api::Handle> nodes_;
  size_t recorded_ = 0;
};

/// A CUDA graph, instantiated. Launching it takes a few microseconds however many kernels it has, and between these the
/// device loses less time than between launches. Must not outlive its device.
class Recording {
 public:
  /// From now on what this thread puts into the stream, which is not the default one, is recorded and not done. Throws
  /// Error.
  static void begin(const Stream& stream);
  /// Ends the recording. Throws Error when something was called meanwhile that cannot be recorded.
  explicit Recording(const Stream& stream, const RecordingParts& parts = {});
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  /// Puts it into a stream, the recorded one or another of the same device.
  void launch(const Stream& stream) const;
  /// Takes the arguments of the one kernel that was recorded in `stream` since begin(), and ends that. False, and
  /// nothing is changed, where it is not the same kernel as that of the part. Launches before keep the arguments that
  /// they had.
  bool replace(size_t part, const Stream& stream);

 private:
  const Device& device_;
  api::Handle graph_ = nullptr;  // which has the nodes
  api::Handle executable_ = nullptr;
  std::vector<api::Handle> parts_;
};

}  // namespace camshaft::cuda
