// Parts of packing that the batched product calls one at a time. Internal to the kernels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu {

/// pack_b for panel p alone. `b` and `packed` are those of the whole matrix.
void pack_panel(const PackedLayout& layout, int64_t p, const float* b, int64_t k_stride, int64_t n_stride,
                float* packed);

/// A panel whose K axis is contiguous: element (k, j) at b[k + j * n_stride]; columns [columns, stored) become zero.
void pack_transposed(const float* b, int64_t k, int64_t n_stride, int64_t columns, int64_t stored, float* out);

}  // namespace camshaft::cpu
