// What makes means of sums; internal to reduce.h.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/reduce_rule.h"

namespace camshaft::cpu {

/// out[i] = totals[i] / divisor
void divide_totals(const double* totals, int64_t n, double divisor, float* out);
/// The same of integers, truncated.
template <class T>
void divide_totals(const Partial<T>* totals, int64_t n, int64_t divisor, T* out);

}  // namespace camshaft::cpu
