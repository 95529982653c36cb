// Transposes a 2-D piece of memory; internal to copy.h.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// out[r * out_step + c * width] = in[c * in_step + r * width]: rows of the input become columns. Steps in bytes.
struct Transpose2d {
  int64_t rows = 0, columns = 0, in_step = 0, out_step = 0;
};
/// So many of them, at these distances in bytes: small ones take a call longer than it takes to move them.
struct TransposeBatch {
  int64_t count = 1, in_step = 0, out_step = 0;
};

/// `width`: 1, 2, 4, 8 or 16 bytes an element.
void transpose_2d(int64_t width, const Transpose2d& transpose, const char* in, char* out,
                  const TransposeBatch& batch = {});

}  // namespace camshaft::cpu
