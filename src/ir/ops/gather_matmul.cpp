#include "ir/ops/gather_matmul.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_matrix_dtype(DType dtype, const char* what) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f64)
    fail_rule("{} of a product by indices must be floating-point, not {}", what, to_string(dtype));
}

}  // namespace

std::vector<Inferred> GatherMatMul::infer(const InferContext& context) const {
  if (context.input_count() != input_count) fail_rule("a product by indices takes {} operands", size_t{input_count});
  const Shape &x = context.shape(in_rows), &w = context.shape(in_matrices);
  if (x.size() != 2) fail_rule("the rows of a product by indices have {} axes instead of 2", x.size());
  if (context.rank(in_indices) != 1)
    fail_rule("the indices of a product must have one axis, not {}", context.rank(in_indices));
  if (w.size() != 3) fail_rule("the matrices of a product by indices have {} axes instead of 3", w.size());
  check_matrix_dtype(context.dtype(in_rows), "the rows");
  check_matrix_dtype(context.dtype(in_matrices), "the matrices");
  check_index_dtype(context.dtype(in_indices), "the indices");
  same_size(x[0], context.shape(in_indices)[0], "rows and indices", 0);
  same_size(x[1], w[1], "rows and matrices", 1);
  return {Inferred{{context.dtype(in_rows), Shape{x[0], w[2]}}}};
}

}  // namespace camshaft::ops
