#include "backends/cuda/passes/byte_products.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/precision/integer_products.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

constexpr int64_t copied_bytes = 16;  // bytes that kernels copy at once

bool is_zero(const Graph& graph, ValueId zeros) {
  return zeros == no_value || uniform_constant(graph, zeros) == 0.0;
}

// Weights minus their zero points, as i8; undefined where that takes more bits.
Constant without_zeros(const Graph& graph, const Steps& weights, ThreadPool& pool) {
  const Shape& shape = graph.shape(weights.steps);
  const auto wide = [&](ValueId id) { return derive(ops::Cast{DType::i32}, {graph.constant(id)}, pool); };
  Constant zeros = wide(weights.parameters.zero);
  if (!zeros.tensor->dims().empty()) {
    Dims dims(shape.size(), 1);
    dims[static_cast<size_t>(weights.parameters.axis)] = zeros.tensor->size();
    zeros = derive_reshaped(zeros, dims, pool);
  }
  const Constant moved = derive(ScalarFunction::sub, {wide(weights.steps), zeros}, pool);
  fix_numbers(moved.provenance, "whether weights without their zero points are bytes");
  const auto* first = moved.tensor->as<int32_t>();
  const bool fits = std::all_of(first, first + moved.tensor->size(), [](int32_t x) { return x >= -128 && x <= 127; });
  return fits ? derive(ops::Cast{DType::i8}, {moved}, pool) : Constant();
}

// Gives Dequantizes of constant matrices and kernels i8 without zero points.
void drop_zeros(Graph& graph, ThreadPool& pool) {
  Rewriter rewriter(graph);
  rewriter.replace_each([&](const Node& node) {
    const auto* op = node.op.as<ops::Dequantize>();
    if (!op || op->block != 0 || node.inputs.size() < 3 || node.inputs[2] == no_value) return no_value;
    const Steps weights{node.inputs[0], {node.inputs[1], node.inputs[2], op->axis}};
    const DType dtype = graph.type(weights.steps).dtype;
    const ValueId zero = weights.parameters.zero;
    if ((dtype != DType::i8 && dtype != DType::u8) || graph.shape(weights.steps).size() < 2 ||
        !is_readable_constant(graph, weights.steps) || !is_readable_constant(graph, zero) ||
        graph.shape(zero).size() > 1)
      return no_value;
    ValueId steps = weights.steps;
    if (dtype != DType::i8 || !is_zero(graph, zero)) {
      const Constant moved = without_zeros(graph, weights, pool);
      if (!moved.tensor) return no_value;
      steps = graph.add_constant(graph.value(weights.steps).name, moved);
    }
    return graph.add(*op, {steps, weights.parameters.scale}, graph.value(node.outputs[0]).name, node.sources);
  });
}

bool has_kernel(const Graph& graph, const Op& op, const Steps& x, const Steps& weights) {
  const Shape& shape = graph.shape(weights.steps);
  const ValueId zero = x.parameters.zero;
  if (!is_readable_constant(graph, weights.steps) || graph.type(weights.steps).dtype != DType::i8 ||
      !is_zero(graph, weights.parameters.zero) || (zero != no_value && !uniform_constant(graph, zero)))
    return false;
  const auto* conv = op.as<ops::Conv>();
  const auto* matmul = op.as<ops::MatMul>();
  if (conv ? shape.size() != 3 && shape.size() != 4 : shape.size() != 2) return false;
  const auto summed = shape[conv || matmul->transpose_b ? 1 : 0].as_constant();
  return summed && *summed > 0 && *summed % copied_bytes == 0;
}

}  // namespace

void byte_products(Graph& graph, const PassContext& context) {
  drop_zeros(graph, context.pool);
  integer_products_where(graph, has_kernel);
}

}  // namespace camshaft
