#include "compile/contract_view.h"

#include <algorithm>

#include "ops/contract.h"
#include "ops/region.h"

namespace camshaft {

namespace {

bool is_contraction(const Node& node) {
  return node.op.as<ops::MatMul>() || node.op.as<ops::Conv>() || node.op.as<ops::ConvTranspose>();
}

}  // namespace

std::optional<ContractView> view_contract(const RegionView& region) {
  ContractView view;
  if (is_contraction(region.node)) {
    view.anchor = &region.node;
    for (size_t i = 0; i < region.node.inputs.size(); ++i)
      view.anchor_inputs.push_back(region.node.inputs[i] == no_value ? -1 : static_cast<int32_t>(i));
    view.result = region.graph.type(region.node.outputs[0]);
    return view;
  }
  if (!region.node.op.as<ops::Region>() || region.node.bodies.size() != 1) return std::nullopt;
  const Graph& body = region.node.bodies[0];
  if (body.nodes.empty() || !is_contraction(body.nodes[0]) || body.outputs.size() != 1) return std::nullopt;
  const auto region_input = [&](ValueId id) {
    const auto it = std::find(body.inputs.begin(), body.inputs.end(), id);
    return it == body.inputs.end() ? -1 : static_cast<int32_t>(it - body.inputs.begin());
  };
  view.anchor = &body.nodes[0];
  view.result = body.type(view.anchor->outputs[0]);
  for (const ValueId id : view.anchor->inputs) {
    view.anchor_inputs.push_back(id == no_value ? -1 : region_input(id));
    if (id != no_value && view.anchor_inputs.back() < 0) return std::nullopt;
  }
  if (body.nodes.size() == 1) return view;
  std::optional<LoweredProgram> lowered = lower_scalar_program(body, 1);
  if (!lowered) return std::nullopt;
  for (const ValueId id : lowered->loads) {
    view.epilogue_loads.push_back(id == view.anchor->outputs[0] ? -1 : region_input(id));
    if (id != view.anchor->outputs[0] && view.epilogue_loads.back() < 0) return std::nullopt;
  }
  if (body.type(body.outputs[0]).shape != view.result.shape) return std::nullopt;
  view.epilogue = std::move(lowered->program);
  return view;
}

}  // namespace camshaft
