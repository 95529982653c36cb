// Matrix products too small to be packed.
#pragma once

#include <cstdint>

namespace camshaft::ops {

/// c[m, n] = a · b of double, uint32_t or uint64_t, where rows of b and c are consecutive; element (i, p) of a is at
/// a[i * a_row + p * a_column], row p of b begins at b[p * b_row], rows of c are n apart. Each element is added up in
/// the order of p, so that the result has the bits of solve() (gemm.h) on every machine.
template <class T>
void unpacked_product(const T* a, int64_t a_row, int64_t a_column, const T* b, int64_t b_row, int64_t m, int64_t n,
                      int64_t k, T* c);

}  // namespace camshaft::ops
