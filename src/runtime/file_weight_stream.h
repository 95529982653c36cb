// Weights that come from the engine's file ahead of the layers that read them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/mapped_file.h"
#include "runtime/weight_stream.h"

namespace camshaft {

/// For the host: a thread of its own reads blocks, also of the next run while none is there. Kernels read the mapping
/// as they do without: where it is not here, the system reads it for them.
class FileWeightStream final : public WeightStream {
 public:
  FileWeightStream(std::shared_ptr<const MappedFile> file, WeightBlocks blocks, StreamingPlan plan);
  ~FileWeightStream() override;

  StreamCounts counts() const override;
  /// Gives all blocks back, and does nothing for later runs.
  void close() override;

 private:
  class Reader;

  /// A forked child has one of its own, as threads do not go with it.
  Reader& reader();
  Loader& loader() override;

  const std::shared_ptr<const MappedFile> file_;
  std::atomic<Reader*> reader_{nullptr};
  std::mutex child_mutex_;  // of those who make a forked child's reader
};

}  // namespace camshaft
