// What a refit puts in the place of initializers.
#pragma once

#include <map>
#include <string>

#include "ir/tensor.h"

namespace camshaft {

struct GivenWeight {
  Tensor tensor;
  bool is_callers = true;  ///< somebody else may change its bytes after the refit
};

/// By the initializer's name.
using GivenWeights = std::map<std::string, GivenWeight>;

}  // namespace camshaft
