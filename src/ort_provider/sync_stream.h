// Streams as ONNX Runtime has them.
#pragma once

#include <memory>

#include "ort_provider/host.h"
#include "ort_provider/work_stream.h"

namespace camshaft::ort_provider {

/// What ONNX Runtime is given for a stream, and frees. Where the stream is our own, the end of a run waits for it; one
/// of the program's it leaves alone, as ONNX Runtime's own provider for CUDA does.
SyncStream* make_sync_stream(const Host& host, std::shared_ptr<WorkStream> work);

/// That which one of ONNX Runtime's streams stands for: a CUstream.
void* handle_of(const Host& host, const OrtSyncStream* stream);

/// That a kernel's work belongs into. Null where ONNX Runtime has no streams, or gives CUDA's default one, a null
/// handle, and `may_be_default` is not said: the session was told to run in it.
std::shared_ptr<WorkStream> stream_of(const Host& host, const OrtKernelContext* kernel, const cuda::Device& device,
                                      bool may_be_default);

}  // namespace camshaft::ort_provider
