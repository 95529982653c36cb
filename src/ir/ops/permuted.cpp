// Operators on operands in another order of axes (Layout in ir/traits.h).
#include <algorithm>

#include "ir/ops/axis_order.h"
#include "ir/ops/contract.h"
#include "ir/ops/float8.h"
#include "ir/ops/move.h"
#include "ir/ops/quantized.h"
#include "ir/ops/reduce.h"
#include "ir/ops/resize.h"

namespace camshaft::ops {

std::optional<Conv> Conv::permuted(const AxisOrder& order) const {
  return as_channels_last(*this, order);
}

std::optional<ConvTranspose> ConvTranspose::permuted(const AxisOrder& order) const {
  return as_channels_last(*this, order);
}

std::optional<IntegerConv> IntegerConv::permuted(const AxisOrder& order) const {
  return as_channels_last(*this, order);
}

std::optional<Float8Conv> Float8Conv::permuted(const AxisOrder& order) const {
  return as_channels_last(*this, order);
}

std::optional<Pool> Pool::permuted(const AxisOrder& order) const {
  return as_channels_last(*this, order);
}

std::optional<GroupNorm> GroupNorm::permuted(const AxisOrder& order) const {
  return as_channels_last(*this, order);
}

std::optional<Reduce> Reduce::permuted(const AxisOrder& order) const {
  Reduce op = *this;
  op.axes = renamed(axes, order);
  std::sort(op.axes.begin(), op.axes.end());
  return op;
}

std::optional<ArgReduce> ArgReduce::permuted(const AxisOrder& order) const {
  ArgReduce op = *this;
  op.axis = renamed({axis}, order)[0];
  return op;
}

std::optional<Softmax> Softmax::permuted(const AxisOrder& order) const {
  Softmax op = *this;
  op.axis = renamed({axis}, order)[0];
  return op;
}

std::optional<Concat> Concat::permuted(const AxisOrder& order) const {
  Concat op = *this;
  op.axis = renamed({axis}, order)[0];
  return op;
}

std::optional<Slice> Slice::permuted(const AxisOrder& order) const {
  Slice op = *this;
  op.axes = renamed(axes, order);
  return op;
}

std::optional<Pad> Pad::permuted(const AxisOrder& order) const {
  const auto middle = pads.begin() + static_cast<int64_t>(order.size());
  Pad op = *this;
  op.pads = reordered(Shape(pads.begin(), middle), order);
  const Shape ends = reordered(Shape(middle, pads.end()), order);
  op.pads.insert(op.pads.end(), ends.begin(), ends.end());
  return op;
}

std::optional<Expand> Expand::permuted(const AxisOrder& order) const {
  if (shape.size() > order.size()) return std::nullopt;
  Shape padded(order.size() - shape.size(), Dim(1));
  padded.insert(padded.end(), shape.begin(), shape.end());
  return Expand{reordered(padded, order)};
}

std::optional<Resize> Resize::permuted(const AxisOrder& order) const {
  const std::vector<int64_t> names = renamed(axes, order);
  AxisOrder sorted = identity_order(axes.size());
  std::sort(sorted.begin(), sorted.end(),
            [&](int64_t a, int64_t b) { return names[static_cast<size_t>(a)] < names[static_cast<size_t>(b)]; });
  Resize op = *this;
  op.axes = reordered(names, sorted);
  op.sizes = reordered(sizes, sorted);
  if (scales.size() == sorted.size()) op.scales = reordered(scales, sorted);
  if (roi.size() == 2 * sorted.size()) {
    const auto middle = roi.begin() + static_cast<int64_t>(sorted.size());
    op.roi = reordered(std::vector<double>(roi.begin(), middle), sorted);
    const auto ends = reordered(std::vector<double>(middle, roi.end()), sorted);
    op.roi.insert(op.roi.end(), ends.begin(), ends.end());
  }
  return op;
}

}  // namespace camshaft::ops
