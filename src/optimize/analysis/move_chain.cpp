#include "optimize/analysis/move_chain.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ir/ops/move.h"
#include "optimize/analysis/even_indices.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

const ops::Slice* part_of(const Graph& graph, const Uses& uses, ValueId id, int64_t axis, ValueId& x) {
  const int32_t n = uses.producer[static_cast<size_t>(id)];
  const auto* slice = n < 0 ? nullptr : graph.nodes[static_cast<size_t>(n)].op.as<ops::Slice>();
  if (!slice || slice->axes != std::vector<int64_t>{axis} || slice->steps[0] != 1) return nullptr;
  x = graph.nodes[static_cast<size_t>(n)].inputs[0];
  return slice;
}

}  // namespace

std::optional<Roll> roll_of(const Graph& graph, const Uses& uses, const Node& node) {
  const auto* concat = node.op.as<ops::Concat>();
  if (!concat || node.inputs.size() != 2) return std::nullopt;
  ValueId x = no_value, other = no_value;
  const auto* end = part_of(graph, uses, node.inputs[0], concat->axis, x);
  const auto* begin = part_of(graph, uses, node.inputs[1], concat->axis, other);
  if (!end || !begin || x != other) return std::nullopt;
  const Dim& size = graph.shape(x)[static_cast<size_t>(concat->axis)];
  if (!(begin->starts[0] == Dim(0)) || !(begin->counts[0] == end->starts[0]) ||
      !(end->counts[0] + end->starts[0] == size) || graph.type(x) != graph.type(node.outputs[0]))
    return std::nullopt;
  return Roll{x, concat->axis, end->starts[0]};
}

MoveChain::MoveChain(const Graph& graph, const Uses& uses, const Shape& result) : graph_(graph), uses_(uses) {
  for (size_t d = 0; d < result.size(); ++d) space_.add_axis(result[d], static_cast<int>(d));
  access_ = space_.add_access(dense_strides(result));
}

bool MoveChain::cross(const Node& node) try {
  if (node.outputs.size() != 1 || !go_through(node)) return false;
  const auto roll = roll_of(graph_, uses_, node);
  operand_ = roll ? roll->x : node.inputs[0];
  return true;
} catch (const Error&) {  // sizes beyond 64 bits
  return false;
}

bool MoveChain::go_through(const Node& node) {
  if (node.op.as<ops::Reshape>()) return node.inputs.size() == 1 && cross_reshape(node);
  if (node.op.as<ops::Transpose>()) return cross_transpose(node);
  if (node.op.as<ops::Slice>()) return cross_slice(node);
  if (node.op.as<ops::Gather>()) return cross_gather(node);
  if (node.op.as<ops::Pad>()) return cross_pad(node);
  return cross_roll(node);
}

bool MoveChain::remap(const Node& node, const Targets& targets) {
  return !map_ && space_.remap(access_, graph_.shape(node.outputs[0]), targets);
}

bool MoveChain::cross_transpose(const Node& node) {
  const auto& permutation = node.op.as<ops::Transpose>()->permutation;
  if (map_) {
    // Axis i of the result was axis permutation[i].
    for (int64_t& along : map_->along)
      if (along >= 0) along = permutation[static_cast<size_t>(along)];
    Shape starts = map_->starts;
    for (size_t i = 0; i < permutation.size(); ++i) starts[static_cast<size_t>(permutation[i])] = map_->starts[i];
    map_->starts = std::move(starts);
    return true;
  }
  const Shape strides = dense_strides(graph_.shape(node.inputs[0]));
  Targets targets;
  for (const int64_t axis : permutation) targets.push_back({strides[static_cast<size_t>(axis)], 0});
  return remap(node, targets);
}

bool MoveChain::cross_slice(const Node& node) {
  const auto& slice = *node.op.as<ops::Slice>();
  const Shape strides = dense_strides(graph_.shape(node.inputs[0]));
  Targets targets;
  for (const Dim& stride : strides) targets.push_back({stride, 0});
  for (size_t i = 0; i < slice.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(slice.axes[i]);
    if (slice.steps[i] < 1) return false;
    targets[axis] = {strides[axis] * Dim(slice.steps[i]), strides[axis] * slice.starts[i]};
  }
  return remap(node, targets);
}

bool MoveChain::cross_gather(const Node& node) {
  const auto axis = static_cast<size_t>(node.op.as<ops::Gather>()->axis);
  const Shape& shape = graph_.shape(node.inputs[0]);
  const auto even = even_indices(graph_, uses_, node.inputs[1], shape[axis]);
  if (!even || even->steps.empty()) return false;
  const Shape strides = dense_strides(shape);
  Targets targets;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != axis) {
      targets.push_back({strides[d], 0});
      continue;
    }
    for (size_t i = 0; i < even->steps.size(); ++i)
      targets.push_back({strides[d] * Dim(even->steps[i]), i == 0 ? strides[d] * even->first : Dim(0)});
  }
  return remap(node, targets);
}

bool MoveChain::cross_pad(const Node& node) {
  const auto& pad = *node.op.as<ops::Pad>();
  if (pad.mode != ops::PadMode::constant || map_) return false;
  ValueId value = node.inputs.size() > 1 ? node.inputs[1] : no_value;
  if (value != no_value) {
    const auto known = uniform_constant(graph_, value);
    if (known == 0.0 && !std::signbit(*known))
      value = no_value;
    else if (!graph_.shape(value).empty())
      return false;
  }
  auto map = placed_in(graph_.shape(node.outputs[0]));
  if (!map) return false;
  for (size_t d = 0; d < map->starts.size(); ++d) map->starts[d] = map->starts[d] - pad.pads[d];
  map->value = value;
  map_ = std::move(map);
  return true;
}

bool MoveChain::cross_roll(const Node& node) {
  const auto roll = roll_of(graph_, uses_, node);
  if (!roll || (map_ && !map_->wraps)) return false;
  auto map = map_ ? map_ : placed_in(graph_.shape(node.outputs[0]));
  if (!map) return false;
  map->wraps = true;
  Dim& start = map->starts[static_cast<size_t>(roll->axis)];
  start = start + roll->shift;
  map_ = std::move(map);
  return true;
}

// Through strides a reshape is nothing. Behind a padding or a roll only axes of one element may come and go.
bool MoveChain::cross_reshape(const Node& node) {
  if (!map_) return true;
  const Shape &from = graph_.shape(node.outputs[0]), &to = graph_.shape(node.inputs[0]);
  std::vector<int64_t> target(from.size(), -1);
  Shape starts(to.size(), Dim(0));
  size_t d = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == Dim(1)) {
      const bool is_walked =
          std::find(map_->along.begin(), map_->along.end(), static_cast<int64_t>(i)) != map_->along.end();
      if (is_walked || !(map_->starts[i] == Dim(0))) return false;
      continue;
    }
    while (d < to.size() && to[d] == Dim(1)) ++d;
    if (d == to.size() || !(to[d] == from[i])) return false;
    target[i] = static_cast<int64_t>(d);
    starts[d++] = map_->starts[i];
  }
  while (d < to.size() && to[d] == Dim(1)) ++d;
  if (d != to.size()) return false;
  for (int64_t& along : map_->along)
    if (along >= 0) along = target[static_cast<size_t>(along)];
  map_->starts = std::move(starts);
  return true;
}

std::optional<ChainMap> MoveChain::placed_in(const Shape& shape) {
  space_.simplify();
  const auto found = space_.placed(access_, shape);
  if (!found) return std::nullopt;
  ChainMap map;
  for (size_t a = 0; a < space_.axes(); ++a) {
    const AccessSpace::Place& place = found->axes[a];
    const auto step = place.coefficient.as_constant();
    if (!step) return std::nullopt;
    map.sizes.push_back(space_.size(a));
    map.roles.push_back(space_.role(a));
    map.along.push_back(place.dim);
    map.steps.push_back(*step);
  }
  map.starts = found->first;
  return map;
}

std::optional<ChainMap> MoveChain::map() {
  return map_ ? map_ : placed_in(graph_.shape(operand_));
}

}  // namespace camshaft
