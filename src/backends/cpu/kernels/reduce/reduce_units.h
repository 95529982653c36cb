// Reductions of many small matrices over their rows; internal to reduce.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/reduce_rule.h"

namespace camshaft::cpu {

/// Combines columns of each of `units` dense matrices of n rows, which follow each other, with its total, of which
/// there are `columns` a unit; sums for the mean. A call of reduce_columns() for each took longer than 3 rows of 3.
template <class T>
void reduce_units(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals);

/// Rows that reduce_few_rows() takes at most.
constexpr int64_t most_few_rows = 8;

/// The results of as many matrices of f32 at once, whose rows are added one by one in f32: so few of them need no
/// totals in double. Rows are `stride` apart, and matrices one behind the other. `divisor` is what sums are divided by
/// for the mean. Products have none.
void reduce_few_rows(ReduceKind kind, const float* x, int64_t units, int64_t n, int64_t columns, int64_t stride,
                     float divisor, float* out);

}  // namespace camshaft::cpu
