// Kernels for the copies that ONNX Runtime puts between nodes of a provider for GPUs and others' (MemcpyFromHost,
// MemcpyToHost).
#pragma once

#include <memory>

#include "ort_provider/host.h"

namespace camshaft::ort_provider {

/// Copies a tensor into another of its size, one of which is on a GPU at least, and waits for it. Throws Error.
void copy_tensor(const Host& host, const OrtValue* from, OrtValue* to);

/// What a session's provider gives as its registry. The host must outlive it.
class CopyKernels {
 public:
  /// `provider`: its name. Throws Error.
  CopyKernels(const Host& host, const char* provider);
  ~CopyKernels();
  CopyKernels(const CopyKernels&) = delete;
  CopyKernels& operator=(const CopyKernels&) = delete;

  const OrtKernelRegistry* registry() const { return registry_; }

 private:
  struct Copy;
  void add(const char* op, bool from_host, const char* provider);

  const Host& host_;
  OrtKernelRegistry* registry_ = nullptr;
};

}  // namespace camshaft::ort_provider
