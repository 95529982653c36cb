// Random steps over caches in blocks: sequences of all lengths, whose blocks lie anywhere.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/ops/paged.h"
#include "reference/random_tensor.h"

namespace camshaft {

struct RandomPaged {
  ops::PagedAttention op;
  std::vector<Tensor> inputs;
};

struct PagedSizes {
  int64_t sequences = 3;
  int64_t most_queries = 9, most_past = 70;
  int64_t most_size = 40;
  int64_t block_size = 0;  ///< 0: random
  int64_t size = 0;        ///< of all heads; 0: random, and maybe another of values
  int64_t key_heads = 0;   ///< 0: random
};

/// Tokens of no sequence follow the last one now and then. Blocks that no sequence has are NaN: nothing may read them.
/// Rows of a cache of 8 bits have scales, if not always.
inline RandomPaged random_paged(Random& random, DType query, DType cache, const PagedSizes& sizes) {
  RandomPaged made;
  const int64_t block_size = sizes.block_size > 0 ? sizes.block_size : random.integer(1, 20);
  const int64_t key_heads = sizes.key_heads > 0 ? sizes.key_heads : random.integer(1, 3), group = random.integer(1, 5),
                size = sizes.size > 0 ? sizes.size : random.integer(1, sizes.most_size);
  const int64_t value_size = sizes.size > 0 || random.integer(0, 1) ? size : random.integer(1, sizes.most_size);
  made.op.heads = key_heads * group;
  made.op.scale = 1 / std::sqrt(static_cast<double>(size));
  if (random.integer(0, 2) == 0) made.op.softcap = random.uniform(0.5, 5);
  if (random.integer(0, 2) == 0) made.op.window = random.integer(1, sizes.most_past);
  made.op.causal = random.integer(0, 3) != 0;

  std::vector<int64_t> queries, past;
  int64_t tokens = 0, used = 0, width = random.integer(0, 3);
  for (int64_t s = 0; s < sizes.sequences; ++s) {
    queries.push_back(random.integer(0, 4) ? random.integer(1, sizes.most_queries) : random.integer(0, 1));
    past.push_back(random.integer(0, 3) ? random.integer(0, sizes.most_past) : 0);
    // Of tokens that see all of their sequence there may be more than keys.
    if (!made.op.causal && made.op.window == 0 && queries.back() > 1 && random.integer(0, 3) == 0)
      past.back() = -random.integer(1, queries.back());
    tokens += queries.back();
    const int64_t blocks = (queries.back() + past.back() + block_size - 1) / block_size;
    used += blocks;
    width = std::max(width, blocks + random.integer(0, 1));
  }
  const int64_t blocks = used + random.integer(0, 4);
  std::vector<int64_t> free(static_cast<size_t>(blocks));
  for (int64_t b = 0; b < blocks; ++b) free[static_cast<size_t>(b)] = b;
  for (int64_t i = blocks; i-- > 1;)
    std::swap(free[static_cast<size_t>(i)], free[static_cast<size_t>(random.integer(0, i))]);

  Tensor starts(DType::i32, {sizes.sequences + 1}), lengths(DType::i32, {sizes.sequences});
  Tensor table(DType::i32, {sizes.sequences, width});
  std::fill_n(table.as_mutable<int32_t>(), table.size(), -1);
  int32_t* at = starts.as_mutable<int32_t>();
  at[0] = 0;
  for (int64_t s = 0; s < sizes.sequences; ++s) {
    const auto i = static_cast<size_t>(s);
    at[s + 1] = static_cast<int32_t>(at[s] + queries[i]);
    lengths.as_mutable<int32_t>()[s] = static_cast<int32_t>(past[i]);
    for (int64_t b = 0; b < (queries[i] + past[i] + block_size - 1) / block_size; ++b) {
      table.as_mutable<int32_t>()[s * width + b] = static_cast<int32_t>(free.back());
      free.pop_back();
    }
  }
  const int64_t rows = tokens + (random.integer(0, 2) ? 0 : random.integer(1, 3));
  const auto cache_of = [&](int64_t elements) {
    Tensor t = random_tensor(random, cache, {blocks, block_size, key_heads, elements});
    const std::vector<double> nan(static_cast<size_t>(block_size * key_heads * elements), std::nan(""));
    const auto count = static_cast<int64_t>(nan.size());
    for (const int64_t block : free) ops::store_elements(cache, t.mutable_data(), block * count, 1, count, nan.data());
    return t;
  };
  const bool has_scales = bit_width(cache) == 8 && random.integer(0, 4) != 0;
  const auto scales_of = [&] {
    Tensor t(DType::f32, {blocks, block_size, key_heads});
    for (int64_t i = 0; i < t.size(); ++i) t.as_mutable<float>()[i] = static_cast<float>(random.uniform(0.01, 0.4));
    for (const int64_t block : free)
      std::fill_n(t.as_mutable<float>() + block * block_size * key_heads, block_size * key_heads, std::nanf(""));
    return t;
  };
  made.inputs = {random_tensor(random, query, {rows, made.op.heads * size}),
                 cache_of(size),
                 cache_of(value_size),
                 starts,
                 lengths,
                 table};
  if (random.integer(0, 2) == 0) made.inputs.push_back(random_tensor(random, DType::f32, {made.op.heads}));
  if (has_scales) {
    made.inputs.resize(ops::PagedAttention::in_key_scales);
    made.inputs.push_back(random.integer(0, 5) ? scales_of() : Tensor());
    made.inputs.push_back(made.inputs.back().defined() && !random.integer(0, 5) ? Tensor() : scales_of());
  }
  if (random.integer(0, 3) == 0) {  // of a reach that keys lie within and beyond
    const int64_t reach = random.integer(0, 1) ? random.integer(0, 12) : random.integer(0, 2 * sizes.most_past);
    made.inputs.resize(ops::PagedAttention::in_relative_bias);
    made.inputs.push_back(random_tensor(random, DType::f32, {made.op.heads, 2 * reach + 1}));
  }
  return made;
}

}  // namespace camshaft
