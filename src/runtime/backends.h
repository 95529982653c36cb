// The backends of this build.
#pragma once

#include <memory>
#include <string>

#include "compile/backend.h"

namespace camshaft {

/// The backend for a device, as users name it: "cpu", "cuda", "cuda:1". Throws Error(invalid_argument) for another
/// name, and Error(unsupported) that says why a GPU cannot be used and which ones there are.
std::shared_ptr<const Backend> find_backend(const std::string& device);

/// The backend for an engine that was built for a kind of device: "cpu" or "cuda". `device`: which one of them, by its
/// name as above; empty: the one that is current in the calling thread, or else the first. Throws as above,
/// Error(unsupported) for a kind that this build does not have, and Error(invalid_argument) for a device of another
/// kind.
std::shared_ptr<const Backend> find_backend_of_kind(const std::string& kind, const std::string& device);

}  // namespace camshaft
