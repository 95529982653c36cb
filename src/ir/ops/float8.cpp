#include "ir/ops/float8.h"

#include "ir/ops/contract.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// The shape rule of the product of numbers that this one is.
template <class T>
std::vector<Inferred> infer_float8(std::string_view name, const T& op, const InferContext& context) {
  const DType a = context.dtype(0), b = context.dtype(1);
  if (!is_float8(a) || a != b)
    fail_rule("{} takes two of f8e4m3 or two of f8e5m2, not {} and {}", name, to_string(a), to_string(b));
  Value x = context.value(0), weights = context.value(1);
  x.type.dtype = weights.type.dtype = DType::f32;
  x.constant = weights.constant = nullptr;
  return op.infer(InferContext({&x, &weights}, {"y"}, nullptr));
}

}  // namespace

std::vector<Inferred> Float8MatMul::infer(const InferContext& context) const {
  return infer_float8(name, MatMul{}, context);
}

std::vector<Inferred> Float8Conv::infer(const InferContext& context) const {
  return infer_float8(name, Conv{strides, pads, dilations, groups, channels_last}, context);
}

}  // namespace camshaft::ops
