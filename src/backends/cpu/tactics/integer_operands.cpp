#include "backends/cpu/tactics/integer_operands.h"

#include <algorithm>

#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

ConvOperands::ConvOperands(const IntegerConvView& view, const KernelShapes& shapes) {
  const auto count = [&](int32_t i) { return i < 0 ? 0 : element_count(shapes.inputs[static_cast<size_t>(i)].dims); };
  x = {view.of_x, nullptr, count(view.x_zero)};
  w = {view.of_weights, nullptr, count(view.weights_zero)};
  if (view.x_zero >= 0) require_equal(x.count, 1, "the number of zero points of the input");
  if (view.weights_zero >= 0 && w.count != 1)
    require_equal(w.count, view.conv.spatial.weight_dims[0], "the number of zero points of the weights");
}

int32_t IntegerOperand::zero(int64_t i, bool moved) const {
  const int64_t at = count == 1 ? 0 : i;
  const bool is_signed = dtype == DType::i8;
  int32_t number = 0;
  if (zeros)
    number = is_signed ? reinterpret_cast<const int8_t*>(zeros)[at] : reinterpret_cast<const uint8_t*>(zeros)[at];
  return moved ? number + (is_signed ? 128 : -128) : number;
}

ZeroTerms::ZeroTerms(const Int8Weights& weights, int64_t row_zeros)
    : begin_(static_cast<size_t>(weights.groups * weights.padded_columns())),
      column_zeros_(begin_.size()),
      sums_(row_zeros > 1 ? begin_.size() : 0),
      row_zeros_(static_cast<size_t>(row_zeros > 1 ? row_zeros : 0)) {}

void ZeroTerms::bind(const IntegerOperand& a, const IntegerOperand& b, const int32_t* bias, int64_t group,
                     Int8Problem& problem) {
  const Int8Weights& w = *problem.weights;
  const int64_t padded = w.padded_columns(), first = group * w.columns;
  int32_t* begin = begin_.data() + group * padded;
  int32_t* zeros = column_zeros_.data() + group * padded;
  const int32_t* stored_sums = reinterpret_cast<const int32_t*>(problem.packed) + w.layout.floats();
  const bool by_row = !row_zeros_.empty();
  const bool a_moved = a.dtype == DType::i8, b_moved = b.dtype == DType::u8;
  const int32_t a_zero = by_row ? 0 : a.zero(0, a_moved);
  bool shifted = false;
  for (int64_t n = 0; n < w.columns; ++n) {
    zeros[n] = b.zero(first + n, b_moved);
    shifted = shifted || zeros[n] != 0;
    const int64_t sum = stored_sums[n] - w.k() * zeros[n];
    begin[n] = static_cast<int32_t>((bias ? bias[first + n] : 0) - a_zero * sum);
    if (by_row) sums_[static_cast<size_t>(group * padded + n)] = static_cast<int32_t>(sum);
  }
  problem.begin = begin;
  problem.column_zeros = shifted ? zeros : nullptr;
  if (!by_row) return;
  for (size_t m = 0; m < row_zeros_.size(); ++m) row_zeros_[m] = a.zero(static_cast<int64_t>(m), a_moved);
  problem.row_zeros = row_zeros_.data();
  problem.row_zero_sums = sums_.data() + group * padded;
}

}  // namespace camshaft::cpu
