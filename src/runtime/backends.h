// The backends of this build.
#pragma once

#include <memory>
#include <string>

#include "compile/backend.h"

namespace camshaft {

/// The backend of a kind: "cpu", or "cuda", which is the first GPU. Throws Error(unsupported) naming the kinds that
/// there are, or why the GPU cannot be used.
std::shared_ptr<const Backend> find_backend(const std::string& kind);

}  // namespace camshaft
