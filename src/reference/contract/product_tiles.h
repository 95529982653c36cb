// The inner loops of matrix products, for the instruction sets of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace camshaft::ops {

// Each element is added up in the order of k, each product of doubles with one rounding (a fused multiply-add, by
// software where the machine has none), so that results are the same bits on every machine. T is double or, exact
// modulo its range, an unsigned integer.

/// c[rows, n] += a · b, or = where it `begins`, where a is packed [k][rows], b is packed [k][n], and rows of c are
/// c_stride apart. n is one to three vectors of `lanes`: the last panel of a matrix may be narrower than the others.
template <class T>
struct PackedTile {
  using Run = void (*)(int64_t k, const T* a, const T* b, T* c, int64_t c_stride, bool begins);

  int rows = 0, columns = 0, lanes = 0;  ///< columns: the most
  Run run[3] = {};                       ///< by vectors - 1
};

/// Those that this machine runs, the fastest first; of double and uint64_t. `exact_products`: products of the
/// elements have no more than 53 bits, so that they need no rounding of their own, and no software does it. That is so
/// of what was f32, f16 or bf16.
template <class T>
const std::vector<PackedTile<T>>& packed_tiles(bool exact_products);

template <class T>
struct UnpackedOperands {
  const T* a;
  int64_t a_row, a_column;
  const T* b;
  int64_t b_row, n, k;
  T* c;
  int64_t c_row;
  bool begins = true;
};

/// c[m, n] += a · b, or = where it `begins`, of double, uint32_t or uint64_t, whose rows of b and c have neighbouring
/// elements: element (i, p) of a is at a[i * a_row + p * a_column], row p of b begins at b[p * b_row], row i of c at
/// c[i * c_row]. `isa` counts the instruction sets as packed_tiles() does.
template <class T>
void unpacked_product(const UnpackedOperands<T>& operands, int64_t m, size_t isa = 0);

/// Columns that unpacked_product() computes side by side: those of B, where it is packed for it.
template <class T>
int64_t unpacked_panel(size_t isa = 0);

/// to[p * to_stride + i] = from[i * row_stride + p], i < rows, p < count: B's panels of a matrix that lies by columns.
template <class T>
void turn_rows(const T* from, int64_t rows, int64_t row_stride, int64_t count, T* to, int64_t to_stride,
               size_t isa = 0);

/// Rows of k neighbours by one vector.
template <class T>
struct DotOperands {
  const T* matrix;
  int64_t row_stride, k;
  const T* x;
  int64_t x_stride;
  T* out;
};

/// out[i] = matrix[i, k] · x[k], i < m.
template <class T>
void dot_products(const DotOperands<T>& operands, int64_t m, size_t isa = 0);

}  // namespace camshaft::ops
