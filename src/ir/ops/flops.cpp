// How many operations the contractions are (Op::flops in ir/op.h).
#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "ir/ops/float8.h"
#include "ir/ops/gather_matmul.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/paged.h"
#include "ir/ops/quantized.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/sample.h"
#include "ir/ops/weight_only.h"

namespace camshaft::ops {

double MatMul::flops(const SizeContext& sizes) const {
  const Shape& a = sizes.operand(0);
  return 2 * sizes.elements(sizes.result(0)) * sizes.size(a[a.size() - (transpose_a ? 2 : 1)]);
}

double IntegerMatMul::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.size(sizes.operand(0).back());
}

double Float8MatMul::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.size(sizes.operand(0).back());
}

double WeightOnlyMatMul::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.size(sizes.operand(0).back());
}

double GatherMatMul::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.size(sizes.operand(in_rows).back());
}

double Conv::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.elements_per_index(sizes.operand(1));
}

double IntegerConv::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.elements_per_index(sizes.operand(1));
}

double Float8Conv::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.elements_per_index(sizes.operand(1));
}

double DeformConv::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.result(0)) * sizes.elements_per_index(sizes.operand(1));
}

double ConvTranspose::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(sizes.operand(0)) * sizes.elements_per_index(sizes.operand(1));
}

double Recurrent::flops(const SizeContext& sizes) const {
  const Shape& x = sizes.operand(in_x);
  return 2 * sizes.size(x[0]) * sizes.size(x[1]) *
         (sizes.elements(sizes.operand(in_weights)) + sizes.elements(sizes.operand(in_recurrence)));
}

double Attention::flops(const SizeContext& sizes) const {
  return 2 * sizes.elements(outer) * sizes.elements(queries) * sizes.elements(keys) *
         static_cast<double>(size + value_size);
}

double LinearAttention::flops(const SizeContext& sizes) const {
  // The state is updated and read at every step.
  const Shape& query = sizes.operand(in_query);
  const double state = sizes.size(query[2]) * sizes.size(sizes.operand(in_value)[2]);
  return 4 * sizes.size(query[0]) * sizes.size(query[1]) * state / static_cast<double>(key_heads);
}

double PagedAttention::flops(const SizeContext& sizes) const {
  // How long sequences are, is data: as if their rows of the table were full.
  const Shape &keys = sizes.operand(in_keys), &values = sizes.operand(in_values);
  const double length = sizes.size(sizes.operand(in_table)[1]) * sizes.size(keys[1]);
  return 2 * sizes.size(sizes.operand(in_query)[0]) * static_cast<double>(heads) * length *
         (sizes.size(keys[3]) + sizes.size(values[3]));
}

}  // namespace camshaft::ops
