// Zero points of products of 8-bit numbers, as the kernel wants them.
#pragma once

#include <vector>

#include "backends/cpu/kernels/gemm/int8_gemm.h"
#include "backends/cpu/tactics/integer_conv_view.h"
#include "compile/kernel.h"

namespace camshaft::cpu {

/// How one operand is given: its type, and its zero points, if there are some.
struct IntegerOperand {
  DType dtype = DType::u8;
  const std::byte* zeros = nullptr;
  int64_t count = 0;  ///< of zero points; 1: for all

  /// The zero point, as the numbers are stored in the kernel: moved by 128 or not.
  int32_t zero(int64_t i, bool moved) const;
};

/// Those of a convolution, without their numbers: one zero point of the input, of the weights one or one a channel.
struct ConvOperands {
  IntegerOperand x, w;
  /// Throws Error(invalid_argument) where there are others.
  ConvOperands(const IntegerConvView& view, const KernelShapes& shapes);
};

/// What the kernel takes in place of zero points. Made once for a set of shapes; bind() allocates nothing.
class ZeroTerms {
 public:
  /// `row_zeros`: A's zero points, one or one a row.
  ZeroTerms(const Int8Weights& weights, int64_t row_zeros);

  /// Fills in the problem of group `group`, whose packed weights it has. `bias`: of all columns, or null.
  void bind(const IntegerOperand& a, const IntegerOperand& b, const int32_t* bias, int64_t group, Int8Problem& problem);

 private:
  // Of one group each.
  std::vector<int32_t> begin_, column_zeros_, sums_, row_zeros_;
};

}  // namespace camshaft::cpu
