// Of boxes that overlap, the one with the highest score.
#include "ir/ops/select.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

bool can_be_boxes(const Dim& numbers) {
  return !provably_different(numbers, 4) || !provably_different(numbers, 5);
}

}  // namespace

std::vector<Inferred> NonMaxSuppression::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::f32 || context.dtype(1) != DType::f32)
    fail_rule("boxes and scores must be f32, not {} and {}", to_string(context.dtype(0)), to_string(context.dtype(1)));
  if (context.rank(0) != 3 || context.rank(1) != 3 || !can_be_boxes(context.shape(0)[2]))
    fail_rule("boxes must be [batch, n, 4 or 5] and scores [batch, classes, n], not {} and {}",
              to_string(context.type(0)), to_string(context.type(1)));
  same_size(context.shape(0)[0], context.shape(1)[0], "batch of boxes and scores", 0);
  same_size(context.shape(0)[1], context.shape(1)[2], "number of boxes and scores", 1);
  if (context.has(2)) check_index_dtype(context.dtype(2), "the most boxes a class");
  for (const size_t i : {size_t{3}, size_t{4}})
    if (context.has(i) && context.dtype(i) != DType::f32)
      fail_rule("the thresholds must be f32, not {}", to_string(context.dtype(i)));
  return {Inferred{{DType::i64, {context.fresh(0, 0), 3}}}};
}

}  // namespace camshaft::ops
