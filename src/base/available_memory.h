// How much memory the process may still take.
#pragma once

#include <cstddef>

namespace camshaft {

/// Bytes that can be taken without anything being swapped out: what the system estimates, or what the control group's
/// limit leaves, if that is less. Half of the machine's memory where neither is known.
size_t available_memory();

}  // namespace camshaft
