// Weights in quads of K.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm/int8_gemm.h"

namespace camshaft::cpu {

namespace {

// Calls visit(place in the packed group, element in the model) for every weight of group g.
template <class Visit>
void for_weights(const Int8Weights& w, int64_t g, Visit&& visit) {
  const int64_t column_step = w.matrix ? 1 : w.k(), depth_step = w.matrix ? w.columns : w.taps;
  for (int64_t p = 0; p < w.layout.panels(); ++p) {
    const int64_t stored = w.layout.columns(p), first = p * w.layout.width;
    const int64_t columns = std::min<int64_t>(w.layout.width, w.columns - first);
    for (int64_t k = 0; k < w.k(); ++k) {
      const int64_t tap = k / w.depth, c = k % w.depth;
      const int64_t from = w.matrix ? k * depth_step : g * w.columns * w.k() + c * depth_step + tap;
      const int64_t inside = k % w.piece, quad = k / w.piece * w.piece_quads() + inside / 4;
      const int64_t to = (w.layout.offset(p) + quad * stored) * 4 + inside % 4;
      for (int64_t j = 0; j < columns; ++j) visit(to + j * 4, from + (first + j) * column_step, first + j);
    }
  }
}

}  // namespace

Int8Weights int8_weights(int64_t groups, int64_t columns, int64_t taps, int64_t depth, bool matrix, int64_t piece) {
  Int8Weights w;
  w.groups = groups;
  w.columns = columns;
  w.taps = taps;
  w.depth = depth;
  w.matrix = matrix;
  w.piece = piece == 0 ? w.k() : piece;
  w.layout = packed_layout(w.quads(), columns);
  return w;
}

void pack_int8(const Int8Weights& w, const uint8_t* from, bool flip, std::byte* packed) {
  const uint8_t bits = flip ? 0x80 : 0;
  for (int64_t g = 0; g < w.groups; ++g) {
    auto* bytes = reinterpret_cast<uint8_t*>(packed) + g * w.group_words() * 4;
    auto* sums = reinterpret_cast<int32_t*>(bytes) + w.layout.floats();
    if (w.group_words() > 0) std::memset(bytes, 0, static_cast<size_t>(w.group_words()) * 4);
    for_weights(w, g, [&](int64_t to, int64_t at, int64_t column) {
      const auto stored = static_cast<uint8_t>(from[at] ^ bits);
      bytes[to] = stored;
      sums[column] += static_cast<int8_t>(stored);
    });
  }
}

void unpack_int8(const Int8Weights& w, const std::byte* packed, bool flip, uint8_t* to) {
  const uint8_t bits = flip ? 0x80 : 0;
  for (int64_t g = 0; g < w.groups; ++g) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(packed) + g * w.group_words() * 4;
    for_weights(w, g, [&](int64_t from, int64_t at, int64_t) { to[at] = static_cast<uint8_t>(bytes[from] ^ bits); });
  }
}

}  // namespace camshaft::cpu
