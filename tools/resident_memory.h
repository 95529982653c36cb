// How much of this process is in memory.
#pragma once

#include <cstdint>

namespace camshaft::tools {

/// Bytes of this process that are in physical memory, mapped files included (Linux: /proc/self/statm); 0 where the
/// system does not say.
int64_t resident_bytes();

}  // namespace camshaft::tools
