// The CUDA backend.
#pragma once

#include <memory>
#include <string>

#include "compile/backend.h"

namespace camshaft::cuda {

/// A GPU by its number; made when it is first asked for, and then kept, so that engines on one GPU share its kernels
/// and handles. What has no kernel there runs on the host, by the kernels of `host`. Throws Error(unsupported), with
/// the way out, when there is no driver, no such GPU or none that is new enough, or no NVRTC.
std::shared_ptr<const Backend> backend(int ordinal, const std::shared_ptr<const Backend>& host);

/// The number of the GPU that is current in the calling thread (cudaSetDevice), or 0 when none is.
int current_ordinal();

}  // namespace camshaft::cuda
