// The reference evaluation of pad.
#include <algorithm>

#include "base/work_scope.h"
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"
#include "reference/move/mapped_copy.h"
#include "reference/move/number_lists.h"

namespace camshaft::ops {

namespace {

// One axis: negative pads crop first; what is left is then continued by the mode.
struct PaddedAxis {
  int64_t first = 0, kept = 0;    // of the input
  int64_t before = 0, total = 0;  // of the result
};

PaddedAxis padded_axis(PadMode mode, int64_t size, int64_t begin, int64_t end, size_t axis) {
  PaddedAxis a;
  a.first = std::max<int64_t>(-begin, 0);
  a.kept = size - a.first - std::max<int64_t>(-end, 0);
  // What is put before an empty axis and cropped behind it leaves it empty.
  if (size == 0 && begin + end == 0) return {};
  if (a.kept < 0) fail_rule("pads {} and {} crop more than the {} elements of axis {}", begin, end, size, axis);
  a.before = std::max<int64_t>(begin, 0);
  a.total = a.before + a.kept + std::max<int64_t>(end, 0);
  if (a.kept == 0 && a.total > 0 && mode != PadMode::constant)
    fail_rule("axis {} has no element to continue: only constant padding can fill it", axis);
  return a;
}

// For each output position of one axis, the input position it shows; -1 for the constant.
std::vector<int64_t> sources(PadMode mode, const PaddedAxis& axis) {
  const auto [first, kept, before, total] = axis;
  std::vector<int64_t> map(static_cast<size_t>(total));
  const int64_t period = std::max<int64_t>(2 * (kept - 1), 1);
  PacedCancellation cancellation;
  for (int64_t o = 0; o < total; ++o) {
    cancellation.did(1);
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

std::vector<Tensor> Pad::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const size_t rank = x.dims().size();
  std::vector<PaddedAxis> axes;
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    axes.push_back(padded_axis(mode, x.dims()[i], pad_amount(pads[i], context.bindings),
                               pad_amount(pads[rank + i], context.bindings), i));
    dims.push_back(axes.back().total);
  }
  // The maps are as long as the axes: of an empty result they could be of any length.
  check_fits_memory(x.dtype(), dims);
  const Tensor fill = context.has(1) ? context.input(1) : Tensor(x.dtype(), {1});
  if (fill.size() != 1) fail_rule("the padding value must be one element, not {}", to_string(fill.dims()));
  if (element_count(dims) == 0) return {Tensor(x.dtype(), dims)};
  // As much as one axis of bytes eight times over: a file of 200 bytes took 12 GB of 6.
  int64_t mapped = 0;
  for (const PaddedAxis& axis : axes) mapped += axis.total;
  const MemoryClaim claim = claim_numbers(mapped);
  std::vector<std::vector<int64_t>> maps;
  for (const PaddedAxis& axis : axes) maps.push_back(sources(mode, axis));
  return {copy_mapped(x, maps, fill, context.pool)};
}

}  // namespace camshaft::ops
