// How often this program has asked for memory.
#pragma once

#include <cstdint>

namespace camshaft::llm {

/// Calls of operator new since the start; 0 under sanitizers, whose allocator is their own.
int64_t allocation_count();

}  // namespace camshaft::llm
