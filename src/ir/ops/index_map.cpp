#include "ir/ops/index_map.h"

#include <algorithm>

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

constexpr int64_t largest_index = int64_t{1} << 60;

int64_t checked_product(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product < -largest_index || product > largest_index)
    fail_rule("an index map goes {} times in steps of {}", a, b);
  return product;
}

int64_t checked_sum(int64_t a, int64_t b) {
  const int64_t sum = a + b;  // of two that are within the bounds
  if (sum < -largest_index || sum > largest_index) fail_rule("an index map leads to {}", sum);
  return sum;
}

void check_fields(const IndexMap& op, size_t rank) {
  if (op.along.size() != op.shape.size() || op.steps.size() != op.shape.size() || op.starts.size() != rank)
    fail_rule("{} axes, {} directions, {} steps and {} starts for {} axes do not fit together", op.shape.size(),
              op.along.size(), op.steps.size(), op.starts.size(), rank);
  for (const int64_t along : op.along)
    if (along != -1) check_axis(along, static_cast<int64_t>(rank));
}

}  // namespace

std::vector<Inferred> IndexMap::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_fields(*this, x.shape.size());
  for (const Dim& size : shape)
    if (const auto high = size.upper_bound(); high && *high < 0) fail_rule("an axis has the size {}", size.str());
  if (context.has(1)) {
    if (context.dtype(1) != x.dtype)
      fail_rule("the value beyond the axes is {}, the input {}", to_string(context.dtype(1)), to_string(x.dtype));
    if (context.rank(1) != 0) fail_rule("the value beyond the axes must be a scalar");
  }
  return {Inferred{{x.dtype, shape}}};
}

BoundIndexMap bind_index_map(const IndexMap& op, const Dims& x, const Dims& result, const SymbolBindings& symbols) {
  check_fields(op, x.size());
  BoundIndexMap bound;
  bound.wraps = op.wraps;
  bound.is_empty = std::find(result.begin(), result.end(), 0) != result.end();
  for (size_t a = 0; a < result.size(); ++a) bound.axes.push_back({result[a], op.along[a], op.steps[a]});
  for (size_t d = 0; d < x.size(); ++d) bound.sources.push_back({0, x[d]});
  if (bound.is_empty) return bound;
  for (size_t d = 0; d < x.size(); ++d) {
    BoundIndexMap::Source& source = bound.sources[d];
    source.start = checked_sum(checked_product(op.starts[d].evaluate(symbols), 1), 0);
    int64_t first = source.start, last = source.start;
    for (BoundIndexMap::Axis& axis : bound.axes) {
      if (axis.along != static_cast<int64_t>(d)) continue;
      if (axis.size == 1) axis.step = 0;
      const int64_t way = checked_product(axis.size - 1, axis.step);
      (way < 0 ? first : last) = checked_sum(way < 0 ? first : last, way);
    }
    source.leaves = first < 0 || last >= source.length;
    if (op.wraps && source.length == 0) fail_rule("indices cannot wrap along axis {}, which has no elements", d);
  }
  return bound;
}

}  // namespace camshaft::ops
