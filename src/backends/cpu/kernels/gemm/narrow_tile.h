// The kernels of one thread under narrow_gemm.h. Internal to the kernels.
#pragma once

#include "backends/cpu/kernels/gemm/narrow_gemm.h"

namespace camshaft::cpu {

/// Rows that are multiplied with the codes themselves; more than these are worth the floats.
inline constexpr int64_t kFewNarrowRows = 8;

/// Sums of all rows over the chunks [begin, end) of a panel's columns, to sums[row * n + column]; at most
/// kFewNarrowRows rows.
void narrow_panel_sums(const NarrowGemm& args, int64_t panel, int64_t begin, int64_t end, float* sums);

/// A panel's weights as floats: K rows of as many as the panel stores.
void widen_narrow_panel(const NarrowGemm& args, int64_t panel, float* floats);

}  // namespace camshaft::cpu
