#include "compile/region/reduce_view.h"

#include <algorithm>

#include "compile/region/scalar_lowering.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft {

namespace {

// The program of the nodes [first, end), whose loads are inputs of the body, or `computed`: that is `number`.
std::optional<PointwiseView> view_part(const Graph& body, size_t first, size_t end, std::span<const ValueId> results,
                                       ValueId computed, int32_t number) {
  std::optional<LoweredProgram> lowered = lower_scalar_program(body, nodes_between(body, first, end), results);
  if (!lowered || lowered->program.outputs.size() != 1) return std::nullopt;
  PointwiseView part;
  for (const ValueId id : lowered->loads) {
    const int32_t input = input_index(body, id);
    if (input < 0 && id != computed) return std::nullopt;
    part.loads.push_back(id == computed ? number : input);
  }
  part.permutations.resize(part.loads.size());
  part.program = std::move(lowered->program);
  return part;
}

}  // namespace

std::optional<ReduceView> view_reduce(const RegionView& region) {
  const Node& node = region.node;
  ReduceView view;
  view.reduced = static_cast<int32_t>(node.inputs.size());
  if (const auto* op = node.op.as<ops::Reduce>()) {
    view.op = *op;
    view.in = region.graph.type(node.inputs[0]);
    view.result = region.graph.type(node.outputs[0]);
    view.input = 0;
    return view;
  }
  if (!node.op.as<ops::Region>() || node.bodies.size() != 1 || node.outputs.size() != 1) return std::nullopt;
  const Graph& body = node.bodies[0];
  const auto is_reduction = [](const Node& inner) { return inner.op.as<ops::Reduce>() != nullptr; };
  const auto at = std::find_if(body.nodes.begin(), body.nodes.end(), is_reduction);
  if (at == body.nodes.end() || std::count_if(body.nodes.begin(), body.nodes.end(), is_reduction) != 1)
    return std::nullopt;
  view.op = *at->op.as<ops::Reduce>();
  view.in = body.type(at->inputs[0]);
  view.result = body.type(at->outputs[0]);
  const auto position = static_cast<size_t>(at - body.nodes.begin());
  if (position > 0) {
    view.before = view_part(body, 0, position, {&at->inputs[0], 1}, no_value, -1);
    if (!view.before) return std::nullopt;
  } else {
    view.input = input_index(body, at->inputs[0]);
    if (view.input < 0) return std::nullopt;
  }
  if (position + 1 < body.nodes.size()) {
    view.behind = view_part(body, position + 1, body.nodes.size(), body.outputs, at->outputs[0], view.reduced);
    if (!view.behind) return std::nullopt;
  }
  if (!view.behind && body.outputs[0] != at->outputs[0]) return std::nullopt;
  if (body.type(body.outputs[0]) != view.result) return std::nullopt;
  return view;
}

KernelShapes shapes_before(const ReduceView& view, const KernelShapes& shapes) {
  KernelShapes before = shapes;
  Dims dims;
  for (const Dim& d : view.in.shape) dims.push_back(d.evaluate(*shapes.symbols));
  before.outputs = {{view.in.dtype, std::move(dims)}};
  return before;
}

KernelShapes shapes_behind(const KernelShapes& shapes) {
  KernelShapes behind = shapes;
  behind.inputs.push_back({shapes.outputs[0].dtype, shapes.outputs[0].dims});
  return behind;
}

}  // namespace camshaft
