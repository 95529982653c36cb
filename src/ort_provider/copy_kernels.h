// Kernels for the copies that ONNX Runtime puts between nodes of a provider for GPUs and others' (MemcpyFromHost,
// MemcpyToHost).
#pragma once

#include <functional>
#include <memory>

#include "ort_provider/host.h"
#include "ort_provider/work_stream.h"

namespace camshaft::ort_provider {

/// Finds the stream for a copy, of the GPU that does it.
using FindStream = std::function<std::shared_ptr<WorkStream>(const cuda::Device& device)>;
/// Copies a tensor into another of its size, one of which is on a GPU at least, in the stream where there is one, and
/// waits for it otherwise, where it goes to the host or between GPUs. Throws Error.
void copy_tensor(const Host& host, const OrtValue* from, OrtValue* to, const FindStream& find_stream);

/// What a session's provider gives as its registry. The host must outlive it.
class CopyKernels {
 public:
  /// `provider`: its name; `in_default_stream`: the session runs in CUDA's default stream. Throws Error.
  CopyKernels(const Host& host, const char* provider, bool in_default_stream);
  ~CopyKernels();
  CopyKernels(const CopyKernels&) = delete;
  CopyKernels& operator=(const CopyKernels&) = delete;

  const OrtKernelRegistry* registry() const { return registry_; }

 private:
  struct Copy;
  void add(const char* op, bool from_host, const char* provider);

  const Host& host_;
  bool in_default_stream_;
  OrtKernelRegistry* registry_ = nullptr;
};

}  // namespace camshaft::ort_provider
