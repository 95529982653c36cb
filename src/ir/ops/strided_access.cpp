#include "ir/ops/strided_access.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

StridedAxes bind_axes(const Shape& sizes, const Shape& access, size_t first, const SymbolBindings& symbols) {
  StridedAxes axes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    axes.sizes.push_back(sizes[i].evaluate(symbols));
    axes.strides.push_back(access[first + i].evaluate(symbols));
  }
  return axes;
}

void require_inside(const StridedAxes& axes, int64_t elements, const char* what, int64_t& last) {
  for (size_t i = 0; i < axes.sizes.size(); ++i) {
    const int64_t steps = axes.sizes[i] - 1, stride = axes.strides[i];
    if (stride < 0) fail_rule("{} has a negative stride", what);
    if (stride == 0 || steps == 0) continue;
    if (steps > elements / stride || last + steps * stride >= elements)
      fail_rule("strides lead to {} beyond its {} elements", what, elements);
    last += steps * stride;
  }
}

void require_strides(const Shape& access, size_t axes, const char* what) {
  if (access.size() != 1 + axes) fail_rule("{} has {} strides, {} are needed", what, access.size() - 1, axes);
}

Dim count_of(const Shape& sizes) {
  Dim all = 1;
  for (const Dim& d : sizes) all = all * d;
  return all;
}

}  // namespace camshaft::ops
