// Orders of axes: entry i names the axis that lies at place i. For what implements `permuted` (ir/traits.h), passes
// that change orders, and importers and exporters of operators that have their channels last.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace camshaft::ops {

using AxisOrder = std::vector<int64_t>;

/// The axes of [n, c, s...] in the order in which they lie in [n, s..., c].
AxisOrder channels_last_order(size_t rank);
AxisOrder identity_order(size_t rank);
/// Entry i: where axis i lies.
AxisOrder inverse(const AxisOrder& order);

/// values[order[0]], values[order[1]], …
template <class T>
std::vector<T> reordered(const std::vector<T>& values, const AxisOrder& order) {
  std::vector<T> result;
  result.reserve(order.size());
  for (const int64_t axis : order) result.push_back(values[static_cast<size_t>(axis)]);
  return result;
}

/// The axes under the names that they have in that order.
std::vector<int64_t> renamed(std::vector<int64_t> axes, const AxisOrder& order);

/// The operator with its field channels_last set; nullopt where it is, or the order is another one.
template <class T>
std::optional<T> as_channels_last(T op, const AxisOrder& order) {
  if (op.channels_last || order.size() < 3 || order != channels_last_order(order.size())) return std::nullopt;
  op.channels_last = true;
  return op;
}

}  // namespace camshaft::ops
