#include "ir/ops/strides.h"

namespace camshaft::ops {

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  // Wraps where another size is 0: such a tensor has no element to stride to, however large the rest.
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[i]) * static_cast<uint64_t>(dims[i]));
  return strides;
}

int64_t product(const Dims& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= dims[i];
  return count;
}

}  // namespace camshaft::ops
