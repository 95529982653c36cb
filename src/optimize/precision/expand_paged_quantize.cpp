#include "optimize/precision/expand_paged_quantize.h"

#include <array>

#include "ir/ops/paged.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// The two caches.
std::array<ValueId, 2> expanded(Graph& graph, const Node& node) {
  using Op = ops::PagedQuantize;
  const std::string name = graph.value(node.outputs[0]).name;
  const auto add = [&](auto op, std::vector<ValueId> operands) {
    return graph.add(std::move(op), std::move(operands), name, node.sources);
  };
  const DType steps = graph.type(node.inputs[Op::in_cache]).dtype;
  ValueId rows = node.inputs[Op::in_rows];
  const ValueId slots = node.inputs[Op::in_slots];
  const Shape shape = graph.shape(rows);
  if (graph.type(rows).dtype != DType::f32) rows = add(ops::Cast{DType::f32}, {rows});
  const ValueId magnitudes = add(ops::Pointwise{F::abs}, {rows});
  const ValueId most = add(ops::Pointwise{F::max}, {add(ops::Reduce{ops::ReduceKind::max, {2}, true}, {magnitudes}),
                                                    add_scalar(graph, DType::f32, Op::least)});
  const ValueId scales = add(ops::Pointwise{F::div}, {most, add_scalar(graph, DType::f32, Op::highest(steps))});
  ops::Quantize quantize;
  quantize.dtype = steps;
  const ValueId codes = add(quantize, {rows, scales});
  return {
      add(ops::PagedStore{}, {node.inputs[Op::in_cache], codes, slots}),
      add(ops::PagedStore{}, {node.inputs[Op::in_scales], add(ops::Reshape{{shape[0], shape[1]}}, {scales}), slots})};
}

}  // namespace

void expand_paged_quantize(Graph& graph, const PassContext& context) {
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    for (Graph& body : node.bodies) expand_paged_quantize(body, context);
    if (!node.op.as<ops::PagedQuantize>()) {
      rewriter.keep(std::move(node));
      continue;
    }
    const std::array<ValueId, 2> results = expanded(graph, node);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      // Layers are told by the names of their results.
      const std::string name = graph.value(node.outputs[o]).name;
      graph.rename(node.outputs[o], name + ".expanded");
      graph.rename(results[o], name);
      rewriter.replace(node.outputs[o], results[o]);
    }
  }
  rewriter.finish();
}

}  // namespace camshaft
