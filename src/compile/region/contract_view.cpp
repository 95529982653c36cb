#include "compile/region/contract_view.h"

#include "ir/ops/contract.h"
#include "ir/ops/contraction.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft {

namespace {

using IsAnchor = bool (*)(const Op& op);

/// What of a body is not the contraction.
struct Behind {
  std::vector<const Node*> nodes;
  // What a row_norm computes, for the program does not.
  ValueId means = no_value, factors = no_value;
};

// With `with_norms`, nodes of norms are none of a program's: the view has them. nullopt where there is more than it has
// room for.
std::optional<Behind> nodes_behind(const Graph& body, bool with_norms, ContractView& view) {
  Behind behind;
  for (const Node* node : nodes_between(body, 1, body.nodes.size())) {
    const auto* norm = with_norms ? node->op.as<ops::RowNorm>() : nullptr;
    const auto* moments = with_norms ? node->op.as<ops::RowMoments>() : nullptr;
    if (norm) {
      const int32_t input = input_index(body, node->inputs[0]);
      if (view.norm || input < 0) return std::nullopt;
      view.norm = *norm;
      view.moments = input;
      behind.means = node->outputs[0];
      behind.factors = node->outputs[1];
    } else if (moments) {
      const bool is_last = body.outputs.size() == 2 && body.outputs[1] == node->outputs[0];
      if (!is_last || node->inputs[0] != body.outputs[0]) return std::nullopt;
      view.gives_moments = *moments;
    } else {
      behind.nodes.push_back(node);
    }
  }
  return behind;
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
  const Graph& body = region.node.bodies[0];
  if (body.nodes.empty() || !is_anchor(body.nodes[0].op)) return std::nullopt;
  const std::optional<Behind> behind = nodes_behind(body, with_norms, view);
  if (!behind || body.outputs.size() != (view.gives_moments ? 2U : 1U)) return std::nullopt;
  view.anchor = &body.nodes[0];
  view.result = body.type(view.anchor->outputs[0]);
  for (const ValueId id : view.anchor->inputs) {
    view.anchor_inputs.push_back(id == no_value ? -1 : input_index(body, id));
    if (id != no_value && view.anchor_inputs.back() < 0) return std::nullopt;
  }
  if (behind->nodes.empty()) return view;
  std::optional<LoweredProgram> lowered = lower_scalar_program(body, behind->nodes, {&body.outputs[0], 1});
  if (!lowered) return std::nullopt;
  for (const ValueId id : lowered->loads) {
    const bool is_result = id == view.anchor->outputs[0];
    view.epilogue_loads.push_back(is_result               ? -1
                                  : id == behind->means   ? ContractView::row_mean
                                  : id == behind->factors ? ContractView::row_factor
                                                          : input_index(body, id));
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

std::optional<ContractView> view_byte_contract(const RegionView& region) {
  return view_behind(ops::is_byte_contraction, region, false);
}

}  // namespace camshaft
