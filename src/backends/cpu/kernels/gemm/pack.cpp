// Packing of the B operand into panels, and back.
#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/gemm/pack_internal.h"

namespace camshaft::cpu {
namespace {

// Columns are contiguous in memory: each row of the panel is one copy.
void pack_rows(const float* b, int64_t k, int64_t k_stride, int64_t columns, int64_t stored, float* out) {
  for (int64_t i = 0; i < k; ++i, out += stored) {
    std::memcpy(out, b + i * k_stride, static_cast<size_t>(columns) * sizeof(float));
    std::fill(out + columns, out + stored, 0.0f);
  }
}

void pack_general(const float* b, int64_t k, int64_t k_stride, int64_t n_stride, int64_t columns, int64_t stored,
                  float* out) {
  // 16 rows at a time: the source's cache lines are used whole where K is the contiguous axis.
  for (int64_t k0 = 0; k0 < k; k0 += 16) {
    const int64_t k1 = std::min(k, k0 + 16);
    for (int64_t j = 0; j < columns; ++j) {
      const float* from = b + j * n_stride;
      for (int64_t i = k0; i < k1; ++i) out[i * stored + j] = from[i * k_stride];
    }
    for (int64_t i = k0; i < k1; ++i) std::fill(out + i * stored + columns, out + (i + 1) * stored, 0.0f);
  }
}

}  // namespace

void pack_panel(const PackedLayout& layout, int64_t p, const float* b, int64_t k_stride, int64_t n_stride,
                float* packed) {
  const int64_t stored = layout.columns(p);
  const int64_t columns = std::min<int64_t>(layout.width, layout.n - p * layout.width);
  const float* from = b + p * layout.width * n_stride;
  float* out = packed + layout.offset(p);
  if (n_stride == 1) return pack_rows(from, layout.k, k_stride, columns, stored, out);
  if (k_stride == 1) return pack_transposed(from, layout.k, n_stride, columns, stored, out);
  pack_general(from, layout.k, k_stride, n_stride, columns, stored, out);
}

void pack_b(const PackedLayout& layout, const float* b, int64_t k_stride, int64_t n_stride, float* packed) {
  for (int64_t p = 0; p < layout.panels(); ++p) pack_panel(layout, p, b, k_stride, n_stride, packed);
}

void unpack_b(const PackedLayout& layout, const float* packed, float* b, int64_t k_stride, int64_t n_stride) {
  for (int64_t p = 0; p < layout.panels(); ++p) {
    const int64_t stored = layout.columns(p);
    const int64_t columns = std::min<int64_t>(layout.width, layout.n - p * layout.width);
    const float* from = packed + layout.offset(p);
    float* to = b + p * layout.width * n_stride;
    for (int64_t i = 0; i < layout.k; ++i) {
      for (int64_t j = 0; j < columns; ++j) to[i * k_stride + j * n_stride] = from[i * stored + j];
    }
  }
}

}  // namespace camshaft::cpu
