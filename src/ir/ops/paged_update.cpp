#include "ir/ops/paged_update.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> PagedUpdate::infer(const InferContext& context) const {
  constexpr int64_t most_heads = int64_t{1} << 31;  // products with sizes stay in range
  if (context.input_count() != input_count) fail_rule("an update of caches takes {} operands", size_t{input_count});
  if (heads < 1 || heads > most_heads) fail_rule("{} heads", heads);
  if (rotated < 2 || rotated % 2 != 0) fail_rule("{} elements cannot be rotated in pairs", rotated);
  for (const size_t i : {in_query, in_key, in_value, in_cosine, in_sine}) {
    if (context.rank(i) != 2)
      fail_rule("operand {} of an update of caches has {} axes instead of 2", i, context.rank(i));
    if (!is_floating(context.dtype(i)))
      fail_rule("operand {} of an update of caches must be floating-point, not {}", i, to_string(context.dtype(i)));
    same_size(context.shape(in_query)[0], context.shape(i)[0], "an update of caches", 0);
  }
  for (const size_t i : {in_keys, in_values}) {
    if (context.rank(i) != 4) fail_rule("a cache has {} axes instead of 4", context.rank(i));
    if (!is_floating(context.dtype(i)))
      fail_rule("a cache must be floating-point, not {}", to_string(context.dtype(i)));
    for (const size_t axis : {size_t{0}, size_t{1}, size_t{2}})
      same_size(context.shape(in_keys)[axis], context.shape(i)[axis], "a cache", axis);
  }
  const Shape &keys = context.shape(in_keys), &values = context.shape(in_values);
  same_size(keys[3] * Dim(heads), context.shape(in_query)[1], "the query", 1);
  same_size(keys[2] * keys[3], context.shape(in_key)[1], "the keys", 1);
  same_size(values[2] * values[3], context.shape(in_value)[1], "the values", 1);
  if (provably_different(max(keys[3], rotated), keys[3]))
    fail_rule("{} of {} elements cannot be rotated", rotated, keys[3].str());
  for (const size_t i : {in_cosine, in_sine}) same_size(Dim(rotated / 2), context.shape(i)[1], "a table of angles", 1);
  check_index_dtype(context.dtype(in_slots), "the slots");
  if (context.rank(in_slots) != 1) fail_rule("the slots must have one axis, not {}", context.rank(in_slots));
  same_size(context.shape(in_query)[0], context.shape(in_slots)[0], "tokens and slots", 0);
  return {Inferred{context.type(in_query)}, Inferred{context.type(in_keys)}, Inferred{context.type(in_values)}};
}

}  // namespace camshaft::ops
