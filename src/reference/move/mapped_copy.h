// Copies along one index map an axis: padding and nearest-neighbour resizing. Internal to the reference.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "ir/tensor.h"

namespace camshaft::ops {

/// A tensor of maps.size() axes whose element (i0, i1, …) is x[maps[0][i0], maps[1][i1], …], or the one element of
/// `fill` where any of these is -1. Any dtype; `fill` has that of x.
Tensor copy_mapped(const Tensor& x, const std::vector<std::vector<int64_t>>& maps, const Tensor& fill,
                   ThreadPool& pool);

}  // namespace camshaft::ops
