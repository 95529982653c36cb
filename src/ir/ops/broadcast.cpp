#include "ir/ops/broadcast.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/strides.h"

namespace camshaft::ops {

namespace {

std::string describe(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].str();
  return out + "]";
}

}  // namespace

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {  // from the last axis
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    try {
      out[out.size() - 1 - i] = broadcast(x, y);
    } catch (const Error&) {
      throw Error(ErrorCode::invalid_model,
                  fmt::format("cannot broadcast {} with {}: {} against {} on axis {} from the end", describe(a),
                              describe(b), x.str(), y.str(), i + 1));
    }
  }
  return out;
}

Dims broadcast_strides(const Dims& operand, const Dims& out) {
  Dims strides(out.size(), 0);
  bool fits = operand.size() <= out.size();
  const Dims dense = row_major_strides(operand);
  for (size_t i = 0; fits && i < operand.size(); ++i) {
    const size_t axis = out.size() - operand.size() + i;
    fits = operand[i] == out[axis] || operand[i] == 1;
    if (operand[i] != 1) strides[axis] = dense[i];
  }
  if (!fits)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("cannot broadcast {} to {}", to_string(operand), to_string(out)));
  return strides;
}

Shape broadcast_strides(const Shape& operand, const Shape& out) {
  Shape strides(out.size(), Dim(0));
  Dim dense = 1;
  for (size_t d = operand.size(), at = out.size(); d-- > 0;) {
    --at;
    if (!(operand[d] == Dim(1))) strides[at] = operand[d] == out[at] ? dense : dense * min(operand[d] - 1, 1);
    dense = dense * operand[d];
  }
  return strides;
}

LoopNest collapse(const Dims& sizes, const std::vector<Dims>& strides) {
  LoopNest nest{{}, std::vector<Dims>(strides.size())};
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 1) continue;
    bool merge = !nest.sizes.empty();
    for (size_t o = 0; merge && o < strides.size(); ++o)
      merge = nest.strides[o].back() == strides[o][axis] * sizes[axis];
    if (merge) {
      nest.sizes.back() *= sizes[axis];
      for (size_t o = 0; o < strides.size(); ++o) nest.strides[o].back() = strides[o][axis];
    } else {
      nest.sizes.push_back(sizes[axis]);
      for (size_t o = 0; o < strides.size(); ++o) nest.strides[o].push_back(strides[o][axis]);
    }
  }
  if (nest.sizes.empty()) {
    nest.sizes.push_back(1);
    for (Dims& s : nest.strides) s.push_back(0);
  }
  return nest;
}

}  // namespace camshaft::ops
