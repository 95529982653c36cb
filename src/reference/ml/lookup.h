// Keys that are looked up, and their order.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "ir/ops/lookup.h"
#include "ir/tensor.h"

namespace camshaft::ops {

/// The positions of `keys` (1-D, a dtype of FindKeys) in its order; of equal ones only the first given, or the last.
std::vector<int64_t> order_of_keys(const Tensor& keys, bool last_wins);

/// to[i]: where x[i] is among `count` keys in that order, or `count`. Errors as those of the operator.
void find_keys(const FindKeys& op, DType dtype, const void* x, int64_t size, const void* keys, int64_t count,
               ThreadPool& pool, int64_t* to);

}  // namespace camshaft::ops
