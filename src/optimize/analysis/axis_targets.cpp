#include "optimize/analysis/axis_targets.h"

#include <utility>

#include "ir/ops/broadcast.h"
#include "ir/ops/move.h"

namespace camshaft {

using Target = AccessSpace::Target;

std::vector<Target> broadcast_targets(const Shape& result, const Shape& operand) {
  Shape strides = ops::broadcast_strides(operand, result);
  std::vector<Target> targets(result.size());
  for (size_t d = 0; d < targets.size(); ++d) targets[d].stride = std::move(strides[d]);
  return targets;
}

std::vector<Target> batch_targets(const Shape& result, const Shape& operand) {
  std::vector<Target> targets = broadcast_targets(result, operand);
  targets[result.size() - 2] = targets[result.size() - 1] = {};
  return targets;
}

std::optional<std::vector<Target>> backward_targets(const Node& move, const Shape& from, const Shape& to) {
  const Shape strides = dense_strides(to);
  std::vector<Target> targets(from.size());
  if (const auto* op = move.op.as<ops::Transpose>()) {
    for (size_t d = 0; d < from.size(); ++d) targets[d].stride = strides[static_cast<size_t>(op->permutation[d])];
    return targets;
  }
  if (const auto* op = move.op.as<ops::Slice>()) {
    for (size_t d = 0; d < from.size(); ++d) targets[d].stride = strides[d];
    for (size_t i = 0; i < op->axes.size(); ++i) {
      const auto d = static_cast<size_t>(op->axes[i]);
      if (op->steps[i] < 0) return std::nullopt;
      targets[d] = {strides[d] * Dim(op->steps[i]), strides[d] * op->starts[i]};
    }
    return targets;
  }
  if (move.op.as<ops::Expand>() && move.inputs.size() == 1) return broadcast_targets(from, to);
  return std::nullopt;
}

}  // namespace camshaft
