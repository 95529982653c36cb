#include "compile/region/contract_view.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/contraction.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

using IsAnchor = bool (*)(const Op& op);

// Takes the nodes of norms out of a body, so that it is pointwise behind the contraction. `means` and `factors`: the
// values that a row_norm computes, for nobody computes them any more. False where there is more than a view has room
// for.
bool take_norms(Graph& body, ContractView& view, ValueId& means, ValueId& factors) {
  std::vector<Node> rest;
  for (Node& node : body.nodes) {
    if (const auto* norm = node.op.as<ops::RowNorm>()) {
      const auto it = std::find(body.inputs.begin(), body.inputs.end(), node.inputs[0]);
      if (view.norm || it == body.inputs.end()) return false;
      view.norm = *norm;
      view.moments = static_cast<int32_t>(it - body.inputs.begin());
      means = node.outputs[0];
      factors = node.outputs[1];
    } else if (const auto* moments = node.op.as<ops::RowMoments>()) {
      const bool is_last = body.outputs.size() == 2 && body.outputs[1] == node.outputs[0];
      if (!is_last || node.inputs[0] != body.outputs[0]) return false;
      view.gives_moments = *moments;
    } else {
      rest.push_back(std::move(node));
    }
  }
  body.nodes = std::move(rest);
  if (view.gives_moments) body.outputs.pop_back();
  return true;
}

std::optional<ContractView> view_behind(IsAnchor is_anchor, const RegionView& region, bool with_norms) {
  ContractView view;
  if (is_anchor(region.node.op)) {
    view.anchor = &region.node;
    for (size_t i = 0; i < region.node.inputs.size(); ++i)
      view.anchor_inputs.push_back(region.node.inputs[i] == no_value ? -1 : static_cast<int32_t>(i));
    view.result = region.graph.type(region.node.outputs[0]);
    return view;
  }
  if (!region.node.op.as<ops::Region>() || region.node.bodies.size() != 1) return std::nullopt;
  const Graph& whole = region.node.bodies[0];
  if (whole.nodes.empty() || !is_anchor(whole.nodes[0].op)) return std::nullopt;
  Graph stripped;
  ValueId means = no_value, factors = no_value;
  const bool has_norms = with_norms && std::any_of(whole.nodes.begin(), whole.nodes.end(), [](const Node& node) {
                           return node.op.as<ops::RowNorm>() || node.op.as<ops::RowMoments>();
                         });
  if (has_norms) {
    stripped = whole;
    if (!take_norms(stripped, view, means, factors)) return std::nullopt;
  }
  const Graph& body = has_norms ? stripped : whole;
  if (body.outputs.size() != 1) return std::nullopt;
  const auto region_input = [&](ValueId id) {
    const auto it = std::find(body.inputs.begin(), body.inputs.end(), id);
    return it == body.inputs.end() ? -1 : static_cast<int32_t>(it - body.inputs.begin());
  };
  view.anchor = &whole.nodes[0];
  view.result = body.type(view.anchor->outputs[0]);
  for (const ValueId id : view.anchor->inputs) {
    view.anchor_inputs.push_back(id == no_value ? -1 : region_input(id));
    if (id != no_value && view.anchor_inputs.back() < 0) return std::nullopt;
  }
  if (body.nodes.size() == 1) return view;
  std::optional<LoweredProgram> lowered = lower_scalar_program(body, 1);
  if (!lowered) return std::nullopt;
  for (const ValueId id : lowered->loads) {
    const bool is_result = id == view.anchor->outputs[0];
    view.epilogue_loads.push_back(is_result       ? -1
                                  : id == means   ? ContractView::row_mean
                                  : id == factors ? ContractView::row_factor
                                                  : region_input(id));
    if (!is_result && view.epilogue_loads.back() == -1) return std::nullopt;
  }
  if (body.type(body.outputs[0]).shape != view.result.shape) return std::nullopt;
  view.epilogue = std::move(lowered->program);
  return view;
}

}  // namespace

std::optional<ContractView> view_contract(const RegionView& region, bool with_norms) {
  return view_behind(ops::is_float_contraction, region, with_norms);
}

std::optional<ContractView> view_integer_contract(const RegionView& region) {
  return view_behind(ops::is_integer_contraction, region, false);
}

}  // namespace camshaft
