// The few largest or smallest of each of many columns of few elements. Internal to top_k.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/top_k_columns.h"

namespace camshaft::cpu {

/// Elements of a column, and how many of them are wanted, at most; where bytes are widened for it, the one best is
/// found sooner so among twice as many.
inline constexpr int64_t most_few_rows = 64, most_few_best = 16;

/// best[i * columns + c] = the row of column c's i-th best element, i < k. T has 4 or 8 bytes. Each row goes through
/// the k best of the rows before it, all columns of a vector at once: no branch depends on the elements.
template <class T>
void few_top_k(const T* x, const TopKColumns& of, int64_t* best);

}  // namespace camshaft::cpu
