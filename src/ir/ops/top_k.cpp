// The k largest or smallest along an axis.
#include "ir/ops/select.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> TopK::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_axis(axis, context.rank(0));
  if (x.dtype == DType::string || x.dtype == DType::boolean)
    fail_rule("top_k of {} is not possible", to_string(x.dtype));
  check_index_dtype(context.dtype(1), "k");
  if (context.rank(1) > 1 || (context.rank(1) == 1 && provably_different(context.shape(1)[0], 1)))
    fail_rule("k must be one number, not {}", to_string(context.type(1)));
  Shape shape = x.shape;
  Dim& size = shape[static_cast<size_t>(axis)];
  const auto known = known_content(context, 1);
  Dim k = known && known->size() == 1 ? known->front() : context.fresh(0, static_cast<size_t>(axis));
  if (const auto n = k.as_constant()) {
    const auto most = size.upper_bound();
    if (*n < 0 || (most && *n > *most))
      fail_rule("the {} elements asked for are not among the {} of axis {}", *n, size.str(), axis);
  }
  size = std::move(k);
  return {Inferred{{x.dtype, shape}}, Inferred{{DType::i64, shape}}};
}

}  // namespace camshaft::ops
