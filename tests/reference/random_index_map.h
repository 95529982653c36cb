// Random index maps with an operand each.
#pragma once

#include "ir/ops/index_map.h"
#include "reference/random_tensor.h"

namespace camshaft {

struct RandomIndexMap {
  ops::IndexMap op;
  Tensor x;
};

/// Of up to 5 axes of up to `largest` elements each. Of an operand with elements where indices wrap.
inline RandomIndexMap random_index_map(Random& random, DType dtype, int64_t largest) {
  RandomIndexMap made;
  made.op.wraps = random.integer(0, 3) == 0;
  const int64_t rank = random.integer(0, 4);
  Dims dims;
  for (int64_t d = 0; d < rank; ++d) {
    dims.push_back(random.integer(made.op.wraps || random.integer(0, 9) > 0 ? 1 : 0, largest));
    // Half of the axes are not left much.
    made.op.starts.emplace_back(random.integer(0, 1) == 0 ? random.integer(-dims.back(), dims.back())
                                                          : random.integer(0, 1));
  }
  const int64_t axes = random.integer(0, 5);
  for (int64_t a = 0; a < axes; ++a) {
    made.op.shape.emplace_back(random.integer(random.integer(0, 19) == 0 ? 0 : 1, a > 2 ? 9 : largest));
    made.op.along.push_back(random.integer(-1, rank - 1));
    made.op.steps.push_back(random.integer(0, 2) > 0 ? 1 : random.integer(-3, 3));
  }
  made.x = random_tensor(random, dtype, dims);
  return made;
}

}  // namespace camshaft
