// Streams of GPUs that sessions run in.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/driver/stream.h"

namespace camshaft::ort_provider {

class RunnerPool;

/// One stream of a GPU, our own or the program's, and what was put into it by sessions. ONNX Runtime may have several
/// streams that stand for one of the program's, which is never waited for unless results come to the host. Safe to use
/// from several threads.
class WorkStream {
 public:
  /// A new one. The device must outlive it.
  static std::shared_ptr<WorkStream> make(const cuda::Device& device);
  /// That of a handle (a CUstream; null is CUDA's default stream): the same object as long as somebody has it.
  static std::shared_ptr<WorkStream> of(const cuda::Device& device, void* handle);
  ~WorkStream();
  WorkStream(const WorkStream&) = delete;
  WorkStream& operator=(const WorkStream&) = delete;

  const cuda::Stream& stream() const { return stream_; }
  void* handle() const { return stream_.handle(); }
  bool is_own() const { return is_own_; }

  /// Numbers what was put into it until now. Throws Error. While somebody records the stream, nothing is numbered.
  uint64_t submitted();
  /// The latest number.
  uint64_t latest() const;
  /// Whether the host has waited for that.
  bool is_done(uint64_t number) const;
  /// `other` waits for all that has a number; the host does not.
  void hold_back(const cuda::Stream& other) const;
  /// The host waits for all that has a number, also where the program has destroyed its stream since. Throws Error for
  /// what failed on the device.
  void wait_for_work();
  /// The same, and for runs of these pools: throws what went wrong in them, as an index out of range.
  void wait();
  /// Runs of that pool's were put into it.
  void remember(const std::shared_ptr<RunnerPool>& pool);

 private:
  WorkStream(const cuda::Device& device, bool is_own, void* handle);

  const cuda::Device& device_;
  cuda::Stream stream_;
  bool is_own_;
  mutable std::mutex mutex_;
  cuda::Event latest_moment_;
  uint64_t latest_ = 0, done_ = 0;
  std::vector<std::weak_ptr<RunnerPool>> pools_;
};

}  // namespace camshaft::ort_provider
