// Padding and cropping.
#include <algorithm>

#include "ops/mapped_copy.h"
#include "ops/move.h"
#include "ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// For each output position of one axis, the input position it shows; -1 for the constant.
std::vector<int64_t> sources(PadMode mode, int64_t size, int64_t begin, int64_t end, size_t axis) {
  // Negative pads crop first; what is left is then continued by the mode.
  const int64_t first = std::max<int64_t>(-begin, 0);
  const int64_t kept = size - first - std::max<int64_t>(-end, 0);
  if (kept < 0) fail_rule("pads {} and {} crop more than the {} elements of axis {}", begin, end, size, axis);
  const int64_t before = std::max<int64_t>(begin, 0), total = before + kept + std::max<int64_t>(end, 0);
  if (kept == 0 && total > 0 && mode != PadMode::constant)
    fail_rule("axis {} has no element to continue: only constant padding can fill it", axis);
  std::vector<int64_t> map(static_cast<size_t>(total));
  const int64_t period = std::max<int64_t>(2 * (kept - 1), 1);
  for (int64_t o = 0; o < total; ++o) {
    int64_t i = o - before;
    switch (mode) {
      case PadMode::constant:
        if (i >= kept) i = -1;
        break;
      case PadMode::edge:
        i = std::clamp<int64_t>(i, 0, kept - 1);
        break;
      case PadMode::reflect:  // pads longer than the axis bounce to and fro, as numpy.pad does
        i = (i % period + period) % period;
        if (i >= kept) i = period - i;
        break;
      case PadMode::wrap:
        i = (i % kept + kept) % kept;
        break;
    }
    map[static_cast<size_t>(o)] = i < 0 ? -1 : i + first;
  }
  return map;
}

}  // namespace

std::vector<Inferred> Pad::infer(const InferContext& context) const {
  Inferred out{context.type(0)};
  const size_t rank = out.type.shape.size();
  if (pads.size() != 2 * rank) fail_rule("{} pads do not fit {} axes: two an axis are needed", pads.size(), rank);
  for (size_t i = 0; i < rank; ++i) {
    Dim& size = out.type.shape[i];
    const Dim padded = size + pads[i] + pads[rank + i];
    if (const auto high = padded.upper_bound(); high && *high < 0)
      fail_rule("pads {} and {} crop more than the {} elements of axis {}", pads[i].str(), pads[rank + i].str(),
                size.str(), i);
    size = padded;
  }
  if (context.has(1)) {
    if (context.dtype(1) != out.type.dtype)
      fail_rule("the padding value is {}, the input {}", to_string(context.dtype(1)), to_string(out.type.dtype));
    if (context.rank(1) > 1 || (context.rank(1) == 1 && provably_different(context.shape(1)[0], 1)))
      fail_rule("the padding value must be a scalar, not {}", to_string(context.type(1)));
  }
  return {out};
}

std::vector<Tensor> Pad::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const size_t rank = x.dims().size();
  const Dims amounts = context.evaluate(pads);
  std::vector<std::vector<int64_t>> maps;
  for (size_t i = 0; i < rank; ++i) maps.push_back(sources(mode, x.dims()[i], amounts[i], amounts[rank + i], i));
  const Tensor fill = context.has(1) ? context.input(1) : Tensor(x.dtype(), {1});
  if (fill.size() != 1) fail_rule("the padding value must be one element, not {}", to_string(fill.dims()));
  return {copy_mapped(x, maps, fill, context.pool)};
}

}  // namespace camshaft::ops
