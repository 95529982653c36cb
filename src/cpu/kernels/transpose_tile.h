// Transposes a 2-D piece of memory; internal to copy.h.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// out[r * out_step + c * width] = in[c * in_step + r * width]: rows of the input become columns. Steps in bytes, width
/// 1, 2, 4, 8 or 16 bytes.
void transpose_2d(int64_t width, int64_t rows, int64_t columns, const char* in, int64_t in_step, char* out,
                  int64_t out_step);

}  // namespace camshaft::cpu
