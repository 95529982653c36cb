// Random rotary embeddings: of dense rows and of heads in the rows of a wider tensor, by tables of all layouts.
#pragma once

#include <limits>

#include "ir/ops/rotary_embedding.h"
#include "reference/random_tensor.h"

namespace camshaft {

struct RandomRotary {
  ops::RotaryEmbedding op;
  std::vector<Tensor> inputs;
};

/// Rows of [batch, heads, length]; an axis may be 0 or 1 long. `special`: some elements of x are infinite or NaN.
inline RandomRotary random_rotary(Random& random, DType dtype, DType tables, bool special = false) {
  const auto size = [&](int64_t most) { return random.integer(random.integer(0, 19) ? 1 : 0, most); };
  const int64_t batch = size(3), heads = size(4), length = size(9), pairs = size(40);
  const int64_t rotated = 2 * pairs, width = rotated + (random.integer(0, 1) ? 0 : random.integer(0, 40));
  RandomRotary made;
  made.op.interleaved = random.integer(0, 1) == 1;
  made.op.rotated = rotated;
  made.op.axes = {batch, heads, length};
  made.op.shape = {batch * heads, length, width};
  // In a projection rows of one head are apart, with other elements between and before them.
  const bool apart = random.integer(0, 1) == 1;
  const int64_t before = apart ? random.integer(0, 5) : 0, row = apart ? width + random.integer(0, 5) : width;
  Tensor x;
  if (apart) {
    made.op.x = {before, length * heads * row, row, heads * row};
    x = random_tensor(random, dtype, {before + batch * length * heads * row});
  } else {
    made.op.x = {0, heads * length * row, length * row, row};
    x = random_tensor(random, dtype, {batch, heads, length, row});
  }
  if (special)
    for (int64_t i = 0; i < x.size(); ++i)
      if (random.integer(0, 30) == 0) {
        const double value =
            random.integer(0, 1) ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
        ops::store_elements(dtype, x.mutable_data(), i, 1, 1, &value);
      }
  made.inputs.push_back(std::move(x));
  for (Shape* access : {&made.op.cosine, &made.op.sine}) {
    const int64_t form = random.integer(0, 2);  // an angle a pair, one an element in halves, or in neighbours
    const int64_t angles = form == 0 ? pairs : rotated;
    const bool batched = random.integer(0, 2) == 0;
    *access = {0, batched ? length * angles : 0, 0, angles, form == 0 ? 0 : form == 1 ? pairs : 1, form == 2 ? 2 : 1};
    made.inputs.push_back(random_tensor(random, tables, {batched ? batch : 1, length, angles}));
  }
  return made;
}

}  // namespace camshaft
