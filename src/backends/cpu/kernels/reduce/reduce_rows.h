// The vectorised parts of the reductions of f32; internal to reduce.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/reduce.h"

namespace camshaft::cpu {

/// Reduces n consecutive elements; sum for mean.
double reduce_row(ReduceKind kind, const float* x, int64_t n);

/// Columns that reduce_columns() takes at most.
constexpr int64_t most_columns = 1024;

/// out[c] = the reduction of x[r * stride + c] over r < rows combined with out[c], c < columns <=
/// most_columns; sum for mean.
void reduce_columns(ReduceKind kind, const float* x, int64_t rows, int64_t stride, int64_t columns, double* out);

}  // namespace camshaft::cpu
