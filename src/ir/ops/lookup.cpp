#include "ir/ops/lookup.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> FindKeys::infer(const InferContext& context) const {
  if (context.dtype(0) != context.dtype(1))
    fail_rule("{} cannot be looked up among keys of {}", to_string(context.dtype(0)), to_string(context.dtype(1)));
  if (context.rank(1) != 1) fail_rule("the keys have {} axes, not 1", context.rank(1));
  visit_key(context.dtype(0), [](const auto&) {});
  return {Inferred{{DType::i64, context.shape(0)}}};
}

}  // namespace camshaft::ops
