#include "backends/cuda/passes/float8_products.h"

#include "ir/ops/contract.h"
#include "ir/ops/float8.h"
#include "optimize/precision/integer_products.h"

namespace camshaft {

namespace {

constexpr int64_t copied_elements = 16;  // that kernels copy at once

bool has_float8_kernel(const Graph& graph, const Op& op, const Steps& x, const Steps& weights) {
  if (!ops::is_float8(graph.type(x.steps).dtype) || !is_readable_constant(graph, weights.steps)) return false;
  const Shape& shape = graph.shape(weights.steps);
  const auto* conv = op.as<ops::Conv>();
  const auto* matmul = op.as<ops::MatMul>();
  if (conv ? shape.size() != 3 && shape.size() != 4 : shape.size() != 2) return false;
  const auto summed = shape[conv || matmul->transpose_b ? 1 : 0].as_constant();
  return summed && *summed > 0 && *summed % copied_elements == 0;
}

}  // namespace

void float8_products(Graph& graph, const PassContext&) {
  integer_products_where(graph, has_float8_kernel);
}

}  // namespace camshaft
