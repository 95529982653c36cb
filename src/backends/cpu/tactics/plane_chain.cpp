#include "backends/cpu/tactics/plane_chain.h"

#include <algorithm>

#include "compile/chain.h"
#include "ir/ops/move.h"

namespace camshaft::cpu {

namespace {

// Sizes of an image with the channels first, as if they were last.
OperandShape as_last(OperandShape shape) {
  std::rotate(shape.dims.begin() + 1, shape.dims.begin() + 2, shape.dims.end());
  return shape;
}

}  // namespace

std::optional<PartInputs> PlaneChain::inputs(const SpatialView& view) const {
  const Node& first = body->nodes[0];
  return first_in ? PartInputs::of_part(*body, *node, view, first.outputs[0], first.inputs[0])
                  : PartInputs::of_part(*body, *node, view);
}

std::optional<PlaneChain> view_plane_chain(const RegionView& region) {
  if (!is_chain(region.node)) return std::nullopt;
  PlaneChain chain{.body = std::make_shared<const Graph>(open_chain(region))};
  const std::vector<Node>& nodes = chain.body->nodes;
  // Of images over two axes, or over one.
  const auto is_transpose = [&](size_t n, const std::vector<int64_t>& permutation) {
    const auto* op = n < nodes.size() ? nodes[n].op.as<ops::Transpose>() : nullptr;
    return op && (op->permutation == permutation || op->permutation == std::vector<int64_t>{0, 2, 1});
  };
  chain.first_in = is_transpose(0, {0, 2, 3, 1});
  chain.first_out = is_transpose(nodes.size() - 1, {0, 3, 1, 2});
  const size_t at = chain.first_in ? 1 : 0;
  if (nodes.size() != at + 1 + (chain.first_out ? 1 : 0) || chain.body->outputs != nodes.back().outputs)
    return std::nullopt;
  chain.node = &nodes[at];
  if (chain.first_out && nodes.back().inputs[0] != chain.node->outputs[0]) return std::nullopt;
  return chain;
}

KernelShapes shapes_as_last(const PartInputs& inputs, const SpatialView& view, bool first_in, bool first_out,
                            const KernelShapes& region) {
  KernelShapes own = inputs.shapes(region);
  own.outputs = region.outputs;
  OperandShape& x = own.inputs[static_cast<size_t>(view.x)];
  if (first_in) x = as_last(x);
  if (first_out) own.outputs[0] = as_last(own.outputs[0]);
  return own;
}

}  // namespace camshaft::cpu
