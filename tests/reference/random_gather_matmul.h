// Random products whose rows choose their matrix.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

#include "reference/random_tensor.h"

namespace camshaft {

struct GatheredSizes {
  int64_t rows = 1, in = 1, out = 1, matrices = 1;
};

/// (x, indices, w) of ops::GatherMatMul: indices of none among them, below and beyond. `has_specials`: NaN and
/// infinities, too.
inline std::vector<Tensor> random_gathered(Random& random, const GatheredSizes& sizes, DType rows, DType indices,
                                           DType matrices, bool has_specials = false) {
  std::vector<Tensor> made{random_tensor(random, rows, {sizes.rows, sizes.in}), Tensor(indices, {sizes.rows}),
                           random_tensor(random, matrices, {sizes.matrices, sizes.in, sizes.out})};
  for (int64_t i = 0; i < sizes.rows; ++i) {
    const int64_t last = sizes.matrices + 1, index = random.integer(0, 3) == 0 ? -1 : random.integer(-1, last);
    ops::store_elements(indices, made[1].mutable_data(), i, 1, 1, &index);
  }
  const double specials[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()};
  for (const size_t operand : {size_t{0}, size_t{2}})
    for (int i = 0; has_specials && made[operand].size() > 0 && i < 3; ++i)
      ops::store_elements(made[operand].dtype(), made[operand].mutable_data(),
                          random.integer(0, made[operand].size() - 1), 1, 1, &specials[random.integer(0, 2)]);
  return made;
}

}  // namespace camshaft
