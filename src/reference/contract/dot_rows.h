// Matrix times vector on the rows of a matrix as it is stored: for products that are made too seldom to pack for.
#pragma once

#include <cstdint>

namespace camshaft::ops {

/// out[j] += Σ matrix[j·columns + i] · x[i] for j in [0, rows), in double. Each sum is made of eight partial ones and
/// without fused multiply-add, so that results are the same bits on every machine. T is float or double.
template <class T>
void add_row_products(const T* matrix, int64_t rows, int64_t columns, const double* x, double* out);

}  // namespace camshaft::ops
