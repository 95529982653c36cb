// The backends of this build.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compile/backend.h"

namespace camshaft {

/// Every device that can be used on this machine, the CPU first.
std::vector<std::shared_ptr<const Backend>> all_backends();
/// The backend of a kind ("cpu"). Throws Error(unsupported) naming the kinds that there are.
std::shared_ptr<const Backend> find_backend(const std::string& kind);

}  // namespace camshaft
