// The one file of its layer that is compiled for AVX2 (CMakeLists.txt). It includes nothing but xxhash.h, whose
// functions XXH_INLINE_ALL makes static: an inline function that other files have too must not come out of this one
// with instructions that a machine may lack.
#include "base/hash_avx2.h"

#if defined(__AVX2__)

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace camshaft {

uint64_t hash64_avx2(const void* bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

}  // namespace camshaft

#endif
