// Reductions of many small matrices over their rows; internal to reduce.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/reduce_rule.h"

namespace camshaft::cpu {

/// Combines columns of each of `units` dense matrices of n rows, which follow each other, with its total, of which
/// there are `columns` a unit; sums for the mean. A call of reduce_columns() for each took longer than 3 rows of 3.
template <class T>
void reduce_units(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, Partial<T>* totals);

/// Whether reduce_few_rows() takes matrices of n rows: of 32 or 64 bits, f32 as far as so few numbers need no totals in
/// double, integers as far as their results wrap as their totals do.
bool takes_few_rows(ReduceKind kind, DType dtype, int64_t n);

/// The results of as many matrices at once, whose rows are combined one by one in their own type. Rows are `stride`
/// apart, and matrices one behind the other.
template <class T>
void reduce_few_rows(ReduceKind kind, const T* x, int64_t units, int64_t n, int64_t columns, int64_t stride, T* out);

}  // namespace camshaft::cpu
