// What a build, or a run of a model that was just built, may take where nobody says so.
#pragma once

#include <cstddef>

namespace camshaft {

/// By the bytes of constants: 10^12 and 10^7 for each byte, or 10^14 and 10^5 for each byte where that is less. Much as
/// long as there are few, for those of convolutions are used often.
double default_operations(size_t constant_bytes);

/// A quarter of the machine's memory, 6 GiB at least, and 16 times the bytes of constants.
size_t default_memory(size_t constant_bytes);

}  // namespace camshaft
