// Parts of tensors along one axis. Internal to the reference.
#pragma once

#include "ir/tensor.h"

namespace camshaft::ops {

/// x[…, start : start + size, …] along `axis`, which must be in range. Not for packed dtypes: unpack_subbyte() first.
Tensor slice_axis(const Tensor& x, int64_t axis, int64_t start, int64_t size);
/// `dims` without one axis, or with one of size 1 more.
Dims without_axis(Dims dims, int64_t axis);
Dims with_axis(Dims dims, int64_t axis);

}  // namespace camshaft::ops
