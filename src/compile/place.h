// For which processor a kernel is.
#pragma once

#include <cstdint>

namespace camshaft {

/// As a backend sees it: the host, or the device that the backend is for. Which of a machine's devices that is, by its
/// number, is the plan's to say (PlanStep::device): kernels, tactics and lock files know of none.
enum class Place : uint8_t { host, device };

}  // namespace camshaft
