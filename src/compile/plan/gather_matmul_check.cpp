#include "compile/plan/gather_matmul_check.h"

#include "compile/plan/shape_check.h"
#include "ir/ops/gather_matmul.h"

namespace camshaft {

void check_gather_matmul(const KernelShapes& shapes) {
  using Op = ops::GatherMatMul;
  const Dims &x = shapes.inputs[Op::in_rows].dims, &w = shapes.inputs[Op::in_matrices].dims;
  require_equal(shapes.inputs[Op::in_indices].dims[0], x[0], "the number of indices of a product's rows");
  require_equal(w[1], x[1], "the rows of a matrix that is chosen by index");
}

}  // namespace camshaft
