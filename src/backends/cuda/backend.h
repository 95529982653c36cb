// The CUDA backend.
#pragma once

#include <memory>
#include <string>

#include "compile/backend.h"

namespace camshaft::cuda {

/// The first GPU; made at the first call. What has no kernel there runs on the host, by the kernels of `host`. Throws
/// Error(unsupported), with the way out, when there is no driver, no GPU that is new enough, or no NVRTC.
std::shared_ptr<const Backend> backend(const std::shared_ptr<const Backend>& host);

}  // namespace camshaft::cuda
