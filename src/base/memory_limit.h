// A ceiling for single buffers. A system that overcommits hands out any amount of memory and kills the process when it
// is touched; asking first makes an absurd size an Error.
#pragma once

#include <cstddef>

namespace camshaft {

/// Of the machine, in bytes; 0 where the system does not say.
size_t physical_memory();
/// The most bytes that one tensor or buffer may take. At first the machine's memory, or the process's cgroup's limit
/// where that is less.
size_t largest_buffer();
/// For tests and for programs that want absurd models refused earlier. Any thread may call it.
void set_largest_buffer(size_t bytes);

}  // namespace camshaft
