// Random updates of caches in blocks.
#pragma once

#include <vector>

#include "ir/ops/paged_update.h"
#include "reference/random_tensor.h"

namespace camshaft {

struct RandomPagedUpdate {
  ops::PagedUpdate op;
  std::vector<Tensor> inputs;
};

/// `chunks`: of sizes that kernels move by 16 bytes. Some slots are negative, some stand twice.
inline RandomPagedUpdate random_paged_update(Random& random, DType rows, DType tables, DType cache, bool chunks,
                                             int64_t most_tokens = 9) {
  const int64_t unit = chunks ? 16 : 2;
  RandomPagedUpdate made;
  made.op.rotated = unit * random.integer(1, 4);
  made.op.interleaved = !chunks && random.integer(0, 1) == 1;
  const int64_t size = made.op.rotated + (random.integer(0, 1) ? (chunks ? 8 : 1) * random.integer(0, 3) : 0);
  const int64_t value_size = random.integer(0, 1) ? size : (chunks ? 8 : 1) * random.integer(1, 5);
  const int64_t key_heads = random.integer(1, 3);
  made.op.heads = key_heads * random.integer(1, 3);
  const int64_t tokens = random.integer(0, most_tokens), blocks = random.integer(1, 4),
                block_size = random.integer(1, 5);
  Tensor slots(random.integer(0, 1) ? DType::i64 : DType::i32, {tokens});
  for (int64_t t = 0; t < tokens; ++t) {
    const double slot = static_cast<double>(random.integer(-1, blocks * block_size - 1));
    ops::store_elements(slots.dtype(), slots.mutable_data(), t, 1, 1, &slot);
  }
  made.inputs = {random_tensor(random, rows, {tokens, made.op.heads * size}),
                 random_tensor(random, rows, {tokens, key_heads * size}),
                 random_tensor(random, rows, {tokens, key_heads * value_size}),
                 random_tensor(random, tables, {tokens, made.op.rotated / 2}),
                 random_tensor(random, tables, {tokens, made.op.rotated / 2}),
                 slots,
                 random_tensor(random, cache, {blocks, block_size, key_heads, size}),
                 random_tensor(random, cache, {blocks, block_size, key_heads, value_size})};
  return made;
}

}  // namespace camshaft
