#include "ir/ops/quantized.h"

#include "ir/ops/contract.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_operands(std::string_view op, const InferContext& context) {
  for (const size_t i : {0, 1}) {
    const DType dtype = context.dtype(i);
    if (dtype != DType::i8 && dtype != DType::u8) fail_rule("{} takes i8 or u8, not {}", op, to_string(dtype));
    if (context.has(2 + i) && context.dtype(2 + i) != dtype)
      fail_rule("{}: the zero point of {} is {}", op, to_string(dtype), to_string(context.dtype(2 + i)));
  }
}

// The shape rule of the product of numbers that the integer one follows.
template <class T>
std::vector<Inferred> infer_as(const T& op, const InferContext& context, bool bias) {
  Value x = context.value(0), weights = context.value(1);
  x.type.dtype = weights.type.dtype = DType::i32;
  x.constant = weights.constant = nullptr;
  std::vector<const Value*> inputs{&x, &weights};
  if (bias) inputs.push_back(&context.value(4));
  return op.infer(InferContext(std::move(inputs), {"y"}, nullptr));
}

}  // namespace

std::vector<Inferred> IntegerMatMul::infer(const InferContext& context) const {
  check_operands(name, context);
  for (const size_t i : {0, 1}) {
    if (!context.has(2 + i) || context.rank(2 + i) == 0) continue;
    const Shape &zero = context.shape(2 + i), &operand = context.shape(i);
    if (zero.size() > operand.size()) fail_rule("{}: a zero point has more axes than its operand", name);
    const bool one = i == 0 ? zero.back() == Dim(1) : zero.size() < 2 || zero[zero.size() - 2] == Dim(1);
    if (!one) fail_rule("{}: a zero point differs along the axis that is summed over", name);
    for (size_t d = 0; d < zero.size(); ++d)
      if (zero[d] != Dim(1)) same_size(zero[d], operand[operand.size() - zero.size() + d], "a zero point", d);
  }
  return infer_as(MatMul{}, context, false);
}

std::vector<Inferred> IntegerConv::infer(const InferContext& context) const {
  check_operands(name, context);
  if (context.has(2) && (context.rank(2) > 1 || provably_different(context.rank(2) ? context.shape(2)[0] : 1, 1)))
    fail_rule("{}: the zero point of the input is one number", name);
  if (context.has(3) && (context.rank(3) > 1 || (context.rank(3) == 1 && context.shape(3)[0] != Dim(1) &&
                                                 provably_different(context.shape(3)[0], context.shape(1)[0]))))
    fail_rule("{}: the zero point of the weights is one number, or one a channel", name);
  return infer_as(Conv{strides, pads, dilations, groups, channels_last}, context, context.has(4));
}

std::vector<Inferred> DynamicQuantize::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::f32) fail_rule("{} takes f32, not {}", name, to_string(context.dtype(0)));
  return {{{DType::u8, context.shape(0)}}, {{DType::f32, {}}}, {{DType::u8, {}}}};
}

std::vector<Inferred> RoundBlocks::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::f32) fail_rule("{} takes f32, not {}", name, to_string(context.dtype(0)));
  if (block < 1) fail_rule("{}: blocks of {} elements", name, block);
  if (context.rank(0) == 0) fail_rule("{}: a scalar has no axis of blocks", name);
  return {Inferred{context.type(0)}};
}

}  // namespace camshaft::ops
