// What a build, or a run of a model that was just built, may take where nobody says so.
#pragma once

#include <cstddef>

namespace camshaft {

/// By the bytes of constants: 5·10^11 and 10^8 for each byte, or 3·10^14 and 10^5 for each byte where that is less.
/// Much as long as there are few, for those of convolutions are used often. And 2·10^4 for each byte of inputs, at most
/// 1.5·10^12: products may be of inputs alone.
double default_operations(size_t constant_bytes, double input_bytes);

/// A quarter of the machine's memory, 6 GiB at least, and 16 times the bytes of constants.
size_t default_memory(size_t constant_bytes);

}  // namespace camshaft
