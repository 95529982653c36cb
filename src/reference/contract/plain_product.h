// Matrix products of elements that are computed as they are stored: f64, and integers of 32 and 64 bits, which wrap.
#pragma once

#include <cstddef>

#include "base/dtype.h"
#include "ir/ops/contract.h"
#include "ir/tensor.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::ops {

/// How matmul's operands lie in memory: element (row, column) of matrix i is offsets[i] + row * row_stride + column *
/// column_stride elements from the start. The result's matrices follow each other.
struct ProductStack {
  struct Operand {
    int64_t row_stride = 0, column_stride = 0;
    Dims offsets;
  };
  Operand a, b;
  int64_t m = 0, n = 0, k = 0;  ///< of each product
  Dims dims;                    ///< of the result; where it is empty, there are no offsets
};

/// Of operands with these dims, at least two each. A stack of A's matrices that share one B is one tall matrix. Throws
/// Error(invalid_argument) for sizes that do not fit.
ProductStack product_stack(const MatMul& op, const Dims& a, const Dims& b);

/// Whether plain_product() multiplies elements of this type.
bool has_plain_product(DType dtype);

/// Each element is summed as solve() does it. `workspace`: plain_product_bytes() for the pool's threads at a multiple
/// of 64, or null, and then it is allocated.
void plain_product(const ProductStack& stack, DType dtype, const void* a, const void* b, void* out, ThreadPool& pool,
                   std::byte* workspace = nullptr);
size_t plain_product_bytes(const ProductStack& stack, DType dtype, int threads);

}  // namespace camshaft::ops
