// Memory of GPUs, as ONNX Runtime asks for it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/stream.h"
#include "base/device_id.h"
#include "ort_provider/work_stream.h"

namespace camshaft::ort_provider {

/// Memory, and what streams may still do with it: a number of each.
class GpuBlock {
 public:
  GpuBlock() = default;
  explicit GpuBlock(cuda::DeviceBuffer buffer) : buffer_(std::move(buffer)) {}

  const cuda::DeviceBuffer& buffer() const { return buffer_; }
  /// It is for work in that stream; null: for anybody's.
  void ask_in(std::shared_ptr<WorkStream> stream) { stream_ = std::move(stream); }
  /// Work of that number uses it.
  void note(const std::shared_ptr<WorkStream>& stream, uint64_t number);
  /// All that is in the stream that it was asked for in may use it; who frees it knows of nothing more.
  void note_end();
  /// Whether work in that stream may use it without a wait; null: the host may.
  bool is_free_for(const WorkStream* stream) const;
  /// `stream` waits for what the others do with it.
  void hold_back(const cuda::Stream& stream, const WorkStream* except) const;
  /// The host waits for it. Throws Error.
  void wait() const;

 private:
  struct Use {
    std::shared_ptr<WorkStream> stream;
    uint64_t number = 0;
  };
  cuda::DeviceBuffer buffer_;
  std::shared_ptr<WorkStream> stream_;
  std::vector<Use> uses_;
};

/// A GPU, whose context is held until the process ends: sessions may be freed then. What it knows of blocks holds for
/// those of GpuBlocks; other memory is the program's, which orders the work on it itself.
class GpuMemory {
 public:
  /// Throws Error(unsupported) where there is none of that number.
  static GpuMemory& of(int ordinal);
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  const cuda::Device& device() const { return device_; }

  /// Copies between this GPU and the host or a GPU. Without a stream, one of this GPU, it is done when this returns,
  /// and so is a copy to the host. What other streams do with the memory is waited for. Throws Error.
  void copy(void* to, DeviceId of_to, const void* from, DeviceId of_from, size_t bytes,
            const std::shared_ptr<WorkStream>& in);

  /// Before work that uses the memory is put into `by`, the stream of `stream`; and when it has its number there.
  void before_use(const void* memory, const cuda::Stream& by, const WorkStream* stream);
  void after_use(const void* memory, const std::shared_ptr<WorkStream>& stream, uint64_t number);
  /// Before work on it in no stream: the host waits.
  void wait_for_uses(const void* memory);

 private:
  friend class GpuBlocks;
  explicit GpuMemory(int ordinal);
  /// That an address is in; null for other memory. Under the mutex.
  GpuBlock* find(const void* memory);

  cuda::Device device_;
  cuda::Stream stream_;
  std::mutex copying_;
  std::mutex mutex_;
  std::map<const std::byte*, GpuBlock> taken_;  ///< by where they begin
};

/// Blocks of a GPU's memory. What is freed is kept for others of about that size, as asking the driver waits for the
/// GPU; all that is kept goes back when there is no more. Work of runs may use a block for longer: it serves the same
/// stream at once, others when that work was waited for.
class GpuBlocks {
 public:
  explicit GpuBlocks(GpuMemory& memory) : memory_(memory) {}
  ~GpuBlocks();

  /// For work in that stream; null: for anybody. Throws Error(out_of_memory).
  void* allocate(size_t bytes, const std::shared_ptr<WorkStream>& stream);
  void free(void* block);

 private:
  void wait_for_kept();

  GpuMemory& memory_;
  std::mutex mutex_;
  std::multimap<size_t, GpuBlock> kept_;  ///< by their size
};

}  // namespace camshaft::ort_provider
