// Memory filled with one element.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// out[i] = element for i < count, of `width` bytes: 1, 2, 4, 8 or 16. Neither needs to be aligned.
void fill_elements(int64_t width, const void* element, void* out, int64_t count);

}  // namespace camshaft::cpu
