#include "backends/cpu/kernels/move/concat.h"

#include <cstring>

#include "backends/cpu/kernels/move/element_bytes.h"
#include "base/pieces.h"

namespace camshaft::cpu {

void concat(ThreadPool& pool, int64_t outer, int parts, const int64_t* bytes, const void* const* in, void* out) {
  int64_t row = 0;
  for (int k = 0; k < parts; ++k) row += bytes[k];
  if (row == 0) return;
  int64_t offset = 0;
  for (int k = 0; k < parts && outer == 1; offset += bytes[k], ++k) {
    // One block a part: split the bytes.
    for_pieces(pool, bytes[k], least_bytes, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<char*>(out) + offset + begin, static_cast<const char*>(in[k]) + begin,
                  static_cast<size_t>(end - begin));
    });
  }
  if (outer <= 1) return;
  for_pieces(pool, outer, (least_bytes + row - 1) / row, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      char* to = static_cast<char*>(out) + o * row;
      for (int k = 0; k < parts; to += bytes[k], ++k) {
        if (bytes[k] == 0) continue;  // an empty part may have no memory
        std::memcpy(to, static_cast<const char*>(in[k]) + o * bytes[k], static_cast<size_t>(bytes[k]));
      }
    }
  });
}

}  // namespace camshaft::cpu
