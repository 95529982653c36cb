#include "ir/ops/axis_order.h"

#include <numeric>

namespace camshaft::ops {

AxisOrder channels_last_order(size_t rank) {
  AxisOrder order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i == 0 ? 0 : i + 1 == rank ? 1 : static_cast<int64_t>(i) + 1;
  return order;
}

AxisOrder identity_order(size_t rank) {
  AxisOrder order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

AxisOrder inverse(const AxisOrder& order) {
  AxisOrder result(order.size());
  for (size_t i = 0; i < order.size(); ++i) result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result;
}

std::vector<int64_t> renamed(std::vector<int64_t> axes, const AxisOrder& order) {
  const AxisOrder places = inverse(order);
  for (int64_t& axis : axes) axis = places[static_cast<size_t>(axis)];
  return axes;
}

}  // namespace camshaft::ops
