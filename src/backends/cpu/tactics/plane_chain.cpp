#include "backends/cpu/tactics/plane_chain.h"

#include <algorithm>

#include "backends/cpu/tactic.h"
#include "compile/chain.h"
#include "ir/ops/move.h"

namespace camshaft::cpu {

namespace {

// Sizes of an image with the channels first, as if they were last.
OperandShape as_last(OperandShape shape) {
  std::rotate(shape.dims.begin() + 1, shape.dims.begin() + 2, shape.dims.end());
  return shape;
}

// Of an image with the channels last.
bool is_one_channel_or_pixel(const Shape& shape) {
  return shape.back() == Dim(1) ||
         std::all_of(shape.begin() + 1, shape.end() - 1, [](const Dim& size) { return size == Dim(1); });
}

}  // namespace

bool PlaneChain::reads_first(const RegionView& region, const SpatialView& view) const {
  const RegionView own = part(region);
  return first_in || is_one_channel_or_pixel(own.graph.shape(own.node.inputs[static_cast<size_t>(view.x)]));
}

bool PlaneChain::writes_first(const RegionView& region) const {
  const RegionView own = part(region);
  return first_out || is_one_channel_or_pixel(own.graph.shape(own.node.outputs[0]));
}

std::optional<PartInputs> PlaneChain::inputs(const SpatialView& view) const {
  if (!body) {
    std::vector<int32_t> inputs;
    for (size_t i = 0; i < node->inputs.size(); ++i)
      inputs.push_back(node->inputs[i] == no_value ? PartInputs::omitted : static_cast<int32_t>(i));
    return PartInputs(std::move(inputs));
  }
  const Node& first = body->nodes[0];
  return first_in ? PartInputs::of_part(*body, *node, view, first.outputs[0], first.inputs[0])
                  : PartInputs::of_part(*body, *node, view);
}

std::optional<PlaneChain> view_plane_chain(const RegionView& region) {
  if (!is_chain(region.node)) return PlaneChain{nullptr, &region.node};
  PlaneChain chain{.body = std::make_shared<const Graph>(open_chain(region))};
  const std::vector<Node>& nodes = chain.body->nodes;
  // Of images over three axes, two or one.
  using Permutations = std::vector<std::vector<int64_t>>;
  const auto is_transpose = [&](size_t n, const Permutations& permutations) {
    const auto* op = n < nodes.size() ? nodes[n].op.as<ops::Transpose>() : nullptr;
    return op && std::find(permutations.begin(), permutations.end(), op->permutation) != permutations.end();
  };
  chain.first_in = is_transpose(0, {{0, 2, 3, 4, 1}, {0, 2, 3, 1}, {0, 2, 1}});
  chain.first_out = is_transpose(nodes.size() - 1, {{0, 4, 1, 2, 3}, {0, 3, 1, 2}, {0, 2, 1}});
  const size_t at = chain.first_in ? 1 : 0;
  if (nodes.size() != at + 1 + (chain.first_out ? 1 : 0) || chain.body->outputs != nodes.back().outputs)
    return std::nullopt;
  chain.node = &nodes[at];
  if (chain.first_out && nodes.back().inputs[0] != chain.node->outputs[0]) return std::nullopt;
  return chain;
}

ImageSize image_at_optimum(const RegionView& region, ValueId image) {
  const Shape& shape = region.graph.shape(image);
  const double elements = elements_at_optimum(region, image);
  return {elements, elements / std::max(size_at_optimum(region, shape[shape.size() - 2]), 1.0),
          size_at_optimum(region, shape[0])};
}

double seconds_beside_memory(const RegionView& region, double seconds) {
  constexpr double exposed = 0.25;
  const double moved = bytes_at_optimum(region) * seconds_per_byte;
  return seconds_per_launch + std::max(seconds, moved) + exposed * std::min(seconds, moved);
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
