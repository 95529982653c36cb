#include "compile/pointwise_view.h"

#include <algorithm>

#include "compile/scalar_lowering.h"
#include "compile/shape_check.h"
#include "ops/pointwise.h"
#include "ops/region.h"

namespace camshaft {

std::optional<PointwiseView> view_pointwise(const RegionView& region) {
  const Node& node = region.node;
  PointwiseView view;
  Graph single;
  const Graph* body = &single;
  if (node.op.as<ops::Region>() && node.bodies.size() == 1) {
    body = &node.bodies[0];
  } else if (node.op.as<ops::Pointwise>() || node.op.as<ops::Cast>()) {
    for (const ValueId id : node.inputs) single.add_input("i", region.graph.type(id));
    const ValueId out = single.add(node.op, single.inputs, "o");
    single.add_output("o", out);
  } else {
    return std::nullopt;
  }
  std::optional<LoweredProgram> lowered = lower_scalar_program(*body, 0);
  if (!lowered || lowered->program.outputs.empty()) return std::nullopt;
  for (const ValueId id : lowered->loads) {
    const auto it = std::find(body->inputs.begin(), body->inputs.end(), id);
    if (it == body->inputs.end()) return std::nullopt;
    view.loads.push_back(static_cast<int32_t>(it - body->inputs.begin()));
  }
  for (const ValueId id : node.outputs)
    if (region.graph.shape(id) != region.graph.shape(node.outputs[0]) || holds_objects(region.graph.type(id).dtype))
      return std::nullopt;
  view.program = std::move(lowered->program);
  return view;
}

PointwiseStrides pointwise_strides(const PointwiseView& view, const KernelShapes& shapes) {
  const Dims& out = shapes.outputs[0].dims;
  PointwiseStrides all;
  for (const int32_t load : view.loads) {
    const OperandShape& operand = shapes.inputs[static_cast<size_t>(load)];
    require_broadcast(operand.dims, out);
    std::vector<int64_t> strides(out.size(), 0);
    int64_t stride = 1;
    for (size_t i = 0; i < operand.dims.size(); ++i) {
      const size_t d = operand.dims.size() - 1 - i;
      strides[out.size() - 1 - i] = operand.dims[d] == 1 ? 0 : stride;
      stride = i == 0 ? operand.pitch() : stride * operand.dims[d];
    }
    all.loads.push_back(std::move(strides));
  }
  for (const OperandShape& operand : shapes.outputs) {
    std::vector<int64_t> strides(operand.dims.size());
    int64_t stride = 1;
    for (size_t d = operand.dims.size(); d-- > 0;) {
      strides[d] = stride;
      stride = d + 1 == operand.dims.size() ? operand.pitch() : stride * operand.dims[d];
    }
    all.outputs.push_back(std::move(strides));
  }
  return all;
}

}  // namespace camshaft
