#include "backends/cuda/tactics/indexed.h"

#include <algorithm>

#include "backends/cuda/tactics/narrow.h"
#include "compile/plan/shape_check.h"
#include "compile/region/move_view.h"

namespace camshaft::cuda {

ElementsParameters elements_of(const OperandShape& x, const OperandShape& indices, int64_t axis, const char* what) {
  const Dims& counts = indices.dims;
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (static_cast<int64_t>(d) != axis && counts[d] > x.dims[d]) require_equal(counts[d], x.dims[d], what);
  ElementsParameters elements;
  elements.rank = narrow(counts.size());
  elements.axis = narrow(axis);
  elements.wide = indices.dtype == DType::i64;
  elements.limit = x.dims[static_cast<size_t>(axis)];
  const int64_t total = element_count(counts);
  elements.chunks = narrow(total);
  if (total == 0) return elements;
  const Dims strides = row_major(x);
  for (size_t d = 0; d < counts.size(); ++d) {
    elements.size[d] = Divisor(narrow(counts[d]));
    elements.stride[d] = strides[d];
  }
  return elements;
}

SliceShape slices_of(const OperandShape& x, const OperandShape& indices, size_t batch_axes) {
  SliceShape shape;
  const auto depth = static_cast<size_t>(indices.dims.back());
  int64_t a_batch = 1;
  for (size_t d = 0; d + 1 < indices.dims.size(); ++d) {
    shape.count *= indices.dims[d];
    if (d >= batch_axes) a_batch *= indices.dims[d];
  }
  SlicesParameters& slices = shape.parameter;
  slices.wide = indices.dtype == DType::i64;
  slices.depth = narrow(depth);
  slices.first_axis = narrow(batch_axes);
  slices.a_batch = Divisor(narrow(std::max<int64_t>(a_batch, 1)));
  for (size_t a = 0; a < depth; ++a) {
    slices.size[a] = x.dims[batch_axes + a];
    slices.slices *= slices.size[a];
  }
  for (size_t d = batch_axes + depth; d < x.dims.size(); ++d) shape.inner *= x.dims[d];
  return shape;
}

}  // namespace camshaft::cuda
