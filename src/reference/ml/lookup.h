// The order of keys that are looked up.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/tensor.h"

namespace camshaft::ops {

/// The positions of `keys` (1-D, a dtype of FindKeys) in its order; of equal ones only the first given, or the last.
std::vector<int64_t> order_of_keys(const Tensor& keys, bool last_wins);

}  // namespace camshaft::ops
