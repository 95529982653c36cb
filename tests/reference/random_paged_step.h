// Random steps of a decoder's layer: rows that go into caches in blocks, and attention over these.
#pragma once

#include <vector>

#include "ir/ops/paged_update.h"
#include "reference/random_paged.h"

namespace camshaft {

/// A chain of an update and the attention behind it. Its outputs are the result, keys and values.
struct RandomPagedStep {
  Graph body;
  std::vector<Tensor> inputs;  ///< those of the update, then starts, past, table and what else there is
};

/// Tokens are stored where their tables say; some of them elsewhere, at places that others have, or nowhere.
inline RandomPagedStep random_paged_step(Random& random, DType type, DType angles, const PagedSizes& sizes,
                                         bool interleaved) {
  using Attention = ops::PagedAttention;
  const RandomPaged made = random_paged(random, type, type, sizes);
  const Dims &keys = made.inputs[Attention::in_keys].dims(), &values = made.inputs[Attention::in_values].dims(),
             &table = made.inputs[Attention::in_table].dims();
  const int64_t tokens = made.inputs[Attention::in_query].dims()[0], size = keys[3], places = keys[0] * keys[1];
  ops::PagedUpdate update{made.op.heads, interleaved, 2 * random.integer(1, size / 2)};
  const ops::PagedSequences step{made.inputs[Attention::in_starts].as<int32_t>(),
                                 made.inputs[Attention::in_past].as<int32_t>(),
                                 made.inputs[Attention::in_table].as<int32_t>(),
                                 table[0],
                                 table[1],
                                 tokens,
                                 keys[0],
                                 keys[1],
                                 made.op.causal};
  std::vector<int64_t> slots(static_cast<size_t>(tokens), -1);
  for (int64_t s = 0; s < step.sequences; ++s)
    for (int64_t q = 0; q < step.queries(s); ++q)
      if (step.past[s] + q >= 0) slots[static_cast<size_t>(step.starts[s] + q)] = step.slot(s, step.past[s] + q);
  for (int64_t& slot : slots)
    if (places > 0 && random.integer(0, 5) == 0) slot = random.integer(-1, places - 1);
  RandomPagedStep all;
  all.inputs = {made.inputs[Attention::in_query],
                random_tensor(random, type, {tokens, keys[2] * size}),
                random_tensor(random, type, {tokens, values[2] * values[3]}),
                random_tensor(random, angles, {tokens, update.rotated / 2}),
                random_tensor(random, angles, {tokens, update.rotated / 2}),
                Tensor::from_ints(slots),
                made.inputs[Attention::in_keys],
                made.inputs[Attention::in_values]};
  std::vector<ValueId> ids;
  const auto add = [&](const Tensor& t) {
    return all.body.add_input("x" + std::to_string(ids.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  };
  for (const Tensor& t : all.inputs) ids.push_back(add(t));
  const std::vector<ValueId> updated = all.body.add_node(update, ids, {"turned", "keys", "values"});
  std::vector<ValueId> read(updated.begin(), updated.end());
  for (size_t i = Attention::in_starts; i < made.inputs.size(); ++i) {
    if (!made.inputs[i].defined()) {
      read.push_back(no_value);
      continue;
    }
    all.inputs.push_back(made.inputs[i]);
    ids.push_back(add(made.inputs[i]));
    read.push_back(ids.back());
  }
  all.body.outputs = {all.body.add(made.op, read, "y"), updated[1], updated[2]};
  return all;
}

}  // namespace camshaft
