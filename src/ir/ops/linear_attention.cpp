#include "ir/ops/linear_attention.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

void check_fields(const LinearAttention& op) {
  constexpr int64_t most_heads = int64_t{1} << 31;  // products with sizes stay in range
  if (op.heads < 1 || op.heads > most_heads || op.key_heads < 1 || op.heads % op.key_heads != 0)
    fail_rule("{} heads of the query cannot share {} of the key", op.heads, op.key_heads);
}

std::vector<Inferred> LinearAttention::infer(const InferContext& context) const {
  check_fields(*this);
  const DType dtype = context.dtype(in_query);
  for (const size_t i : {in_query, in_key, in_value, in_decay, in_beta}) {
    if (i > in_value && !context.has(i)) continue;
    if (context.rank(i) != 3) fail_rule("{} has {} axes instead of 3", input_names[i], context.rank(i));
    if (!is_floating(dtype) || context.dtype(i) != dtype)
      fail_rule("{} is {}, the query {}: one float type is needed", input_names[i], to_string(context.dtype(i)),
                to_string(dtype));
    for (const size_t axis : {size_t{0}, size_t{1}})
      same_size(context.shape(in_query)[axis], context.shape(i)[axis], input_names[i], axis);
  }
  if (gated && !context.has(in_decay)) fail_rule("the decay is missing");
  if (delta && !context.has(in_beta)) fail_rule("beta is missing");
  const Shape& query = context.shape(in_query);
  const Dim size = floor_div(query[2], heads), value_size = floor_div(context.shape(in_value)[2], key_heads);
  same_size(size * Dim(key_heads), context.shape(in_key)[2], "the key", 2);
  const Shape state{query[0], key_heads, size, value_size};
  DType state_dtype = dtype;
  if (context.has(in_state)) {
    state_dtype = context.dtype(in_state);
    if (!is_floating(state_dtype) || context.rank(in_state) != 4)
      fail_rule("the past state is {}, a float tensor of 4 axes is needed", to_string(context.type(in_state)));
    for (size_t axis = 0; axis < 4; ++axis)
      same_size(state[axis], context.shape(in_state)[axis], "the past state", axis);
  }
  return {{{dtype, {query[0], query[1], value_size * Dim(heads)}}}, {{state_dtype, state}}};
}

}  // namespace camshaft::ops
