// XXH3 for processors with AVX2. Internal to hash.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft {

/// The number that XXH3_64bits gives. Only for processors with AVX2.
uint64_t hash64_avx2(const void* bytes, size_t size);

}  // namespace camshaft
