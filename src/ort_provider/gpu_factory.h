// What makes the providers of sessions whose tensors are on a GPU.
#pragma once

#include <optional>
#include <vector>

#include "ort_provider/factory.h"

namespace camshaft::ort_provider {

/// A stream of a GPU: one of the program's, by its handle, or a new one. Throws Error.
SyncStream* make_stream_for(const Host& host, const OrtMemoryDevice* device, const std::optional<void*>& programs);

/// Its devices are the GPUs that CUDA numbers, each with its memory: ONNX Runtime puts what engines read and write
/// there, and copies what comes from the host or goes there. Without a GPU it has none.
class GpuFactory : public Factory {
 public:
  explicit GpuFactory(const ort::ApiBase& base);

 private:
  void list_gpus(OrtEpDevice** ep_devices, size_t most, size_t* given);

  /// Of each GPU; they live as long as ONNX Runtime does.
  std::vector<OrtHardwareDevice*> gpus_;
  std::vector<OrtMemoryInfo*> memories_;
};

}  // namespace camshaft::ort_provider
