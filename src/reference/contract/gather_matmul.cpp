// The reference evaluation of products whose rows choose their matrix.
#include "ir/ops/gather_matmul.h"

#include <algorithm>

#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"

namespace camshaft::ops {

std::vector<Tensor> GatherMatMul::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(in_rows), &w = context.input(in_matrices);
  const std::vector<int64_t> indices = context.input(in_indices).to_ints();
  const int64_t rows = x.dims()[0], in = x.dims()[1], matrices = w.dims()[0], out = w.dims()[2];
  if (static_cast<int64_t>(indices.size()) != rows || w.dims()[1] != in)
    fail_rule("{} indices for rows {}, and matrices {}", indices.size(), to_string(x.dims()), to_string(w.dims()));
  Tensor y(x.dtype(), {rows, out});
  for_pieces(context.pool, rows, (int64_t{1} << 14) / std::max<int64_t>(1, in * out) + 1,
             [&](int64_t begin, int64_t end) {
               std::vector<double> row(static_cast<size_t>(in)), column(static_cast<size_t>(out));
               for (int64_t i = begin; i < end; ++i) {
                 const int64_t index = indices[static_cast<size_t>(i)];
                 if (index < 0 || index >= matrices) continue;  // zeros
                 std::vector<double> sums(static_cast<size_t>(out), 0.0);
                 load_elements(x.dtype(), x.data(), i * in, 1, in, row.data());
                 for (int64_t k = 0; k < in; ++k) {
                   load_elements(w.dtype(), w.data(), (index * in + k) * out, 1, out, column.data());
                   for (size_t j = 0; j < sums.size(); ++j) sums[j] += row[static_cast<size_t>(k)] * column[j];
                 }
                 store_elements(y.dtype(), y.mutable_data(), i * out, 1, out, sums.data());
               }
             });
  return {y};
}

}  // namespace camshaft::ops
