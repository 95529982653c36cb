// Elements that are not zero, and elements that differ.
#include "ir/ops/select.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> NonZero::infer(const InferContext& context) const {
  return {Inferred{{DType::i64, {context.rank(0), context.fresh(0, 1)}}}};
}

std::vector<Inferred> Unique::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  if (axis != -1) check_axis(axis, context.rank(0));
  const Dim count = context.fresh(0, axis == -1 ? 0 : static_cast<size_t>(axis));
  Dim slices = 1;
  Shape shape{count};
  if (axis == -1) {
    for (const Dim& d : x.shape) slices = slices * d;
  } else {
    shape = x.shape;
    std::swap(slices, shape[static_cast<size_t>(axis)]);
    shape[static_cast<size_t>(axis)] = count;
  }
  return {Inferred{{x.dtype, shape}}, Inferred{{DType::i64, {count}}}, Inferred{{DType::i64, {slices}}},
          Inferred{{DType::i64, {count}}}};
}

}  // namespace camshaft::ops
