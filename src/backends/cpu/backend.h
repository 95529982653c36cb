// The CPU backend.
#pragma once

#include <memory>

#include "compile/backend.h"

namespace camshaft::cpu {

/// The one CPU backend of this process.
std::shared_ptr<const Backend> backend();

}  // namespace camshaft::cpu
