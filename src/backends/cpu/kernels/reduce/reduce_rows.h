// The vectorised parts of the reductions; internal to reduce.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/reduce_rule.h"

namespace camshaft::cpu {

/// The largest or smallest of n consecutive elements; NaN if any is NaN.
float extreme_of_row(bool largest, const float* x, int64_t n);

/// Where the first or the last of n consecutive elements that equals `value` is; -1: none does.
int64_t position_in_row(const float* x, int64_t n, float value, bool last);

/// Combines each of `rows` rows of n consecutive elements, which follow each other, with its total; sums for the mean.
template <class T>
void reduce_rows(ReduceKind kind, const T* x, int64_t rows, int64_t n, Partial<T>* totals);

/// Columns that reduce_columns() takes at most.
constexpr int64_t most_columns = 1024;

/// totals[c] = the reduction of x[r * stride + c] over r < rows combined with totals[c], c < columns <= most_columns;
/// sums for the mean. `ahead`: as many rows behind these are what is read next, from beyond the caches.
template <class T>
void reduce_columns(ReduceKind kind, const T* x, int64_t rows, int64_t stride, int64_t columns, Partial<T>* totals,
                    bool ahead = false);

}  // namespace camshaft::cpu
