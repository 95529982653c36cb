#include "reference/move/axis_slice.h"

#include "base/work_scope.h"
#include "ir/ops/strides.h"
#include "reference/elements.h"

namespace camshaft::ops {

Tensor slice_axis(const Tensor& x, int64_t axis, int64_t start, int64_t size) {
  const auto split = static_cast<size_t>(axis);
  const int64_t outer = product(x.dims(), 0, split), inner = product(x.dims(), split + 1, x.dims().size());
  const int64_t whole = x.dims()[split];
  Dims dims = x.dims();
  dims[split] = size;
  Tensor out(x.dtype(), dims);
  if (out.size() == 0) return out;  // of any number of empty rows
  visit_storage(x.dtype(), [&]<class T>(const T&) {
    auto* to = out.as_mutable<T>();
    PacedCancellation cancellation;
    for (int64_t o = 0; o < outer; ++o) {
      cancellation.did(size * inner);
      copy_elements(x.as<T>() + (o * whole + start) * inner, to + o * size * inner, size * inner);
    }
  });
  return out;
}

Dims without_axis(Dims dims, int64_t axis) {
  dims.erase(dims.begin() + axis);
  return dims;
}

Dims with_axis(Dims dims, int64_t axis) {
  dims.insert(dims.begin() + axis, 1);
  return dims;
}

}  // namespace camshaft::ops
