// What recurrent layers are given.
#pragma once

#include "backends/cuda/device/numbers.h"

namespace camshaft::cuda {

struct RecurrentParameters {
  u32 time = 0, batch = 0, in = 0, hidden = 0, directions = 1;
  u32 first_step = 0;  ///< of the stretch that is projected together
  u32 reverse = 0;     ///< bit d: direction d begins at the end
};

}  // namespace camshaft::cuda
