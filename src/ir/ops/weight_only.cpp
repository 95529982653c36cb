#include "ir/ops/weight_only.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

bool is_narrow_step(DType dtype) {
  return is_integer(dtype) && bit_width(dtype) <= 8;
}

std::vector<Inferred> WeightOnlyMatMul::infer(const InferContext& context) const {
  const DType dtype = context.dtype(0);
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    fail_rule("{} takes f32, f16 and bf16, not {}", name, to_string(dtype));
  if (context.dtype(2) != DType::f32 && context.dtype(2) != DType::f16)
    fail_rule("{} of {} takes no scales of {}", name, to_string(dtype), to_string(context.dtype(2)));
  if (!is_narrow_step(context.dtype(1))) fail_rule("{} takes no steps of {}", name, to_string(context.dtype(1)));
  if (block < 1) fail_rule("{}: blocks of {} elements", name, block);
  if (rounded_block != 0 && (rounded_block < 0 || dtype != DType::f32))
    fail_rule("{}: {} is not rounded by blocks of {}", name, to_string(dtype), rounded_block);
  const Shape &x = context.shape(0), &steps = context.shape(1), &scale = context.shape(2);
  if (x.empty() || steps.size() != 2 || scale.size() != 2)
    fail_rule("{} takes a matrix of steps and one of scales, and x has an axis at least", name);
  const size_t depth = transposed ? 1 : 0;
  same_size(x.back(), steps[depth], "what is summed over", x.size() - 1);
  same_size(scale[1 - depth], steps[1 - depth], "the scale", 1 - depth);
  same_size(scale[depth], ceil_div(steps[depth], block), "the blocks of the scale", depth);
  if (context.has(3)) {
    if (context.dtype(3) != context.dtype(1) && context.dtype(3) != DType::f32)
      fail_rule("{}: the zero point is {}, the steps are {}", name, to_string(context.dtype(3)),
                to_string(context.dtype(1)));
    const Shape& zero = context.shape(3);
    if (!zero.empty() && zero.size() != 2) fail_rule("{}: the zero point has {} axes, not 0 or 2", name, zero.size());
    for (size_t i = 0; i < zero.size(); ++i) same_size(zero[i], scale[i], "the zero point", i);
  }
  Shape result = x;
  result.back() = steps[1 - depth];
  return {Inferred{{dtype, std::move(result)}}};
}

std::vector<Inferred> ReadBytesAs::infer(const InferContext& context) const {
  const DType from = context.dtype(0);
  for (const DType dtype : {from, to})
    if (!is_narrow_step(dtype)) fail_rule("{} takes integers of at most 8 bits, not {}", name, to_string(dtype));
  Shape shape = context.shape(0);
  if (shape.empty()) fail_rule("{}: a scalar has no axis that could get longer", name);
  const std::optional<int64_t> size = shape.back().as_constant();
  if (bit_width(from) == 8) {
    shape.back() = shape.back() * Dim(8 / bit_width(to));
  } else if (size && *size * bit_width(from) % 8 == 0) {
    shape.back() = Dim(*size * bit_width(from) / bit_width(to));
  } else {
    fail_rule("{}: rows of {} elements of {} are no whole bytes", name, shape.back().str(), to_string(from));
  }
  return {Inferred{{to, std::move(shape)}}};
}

}  // namespace camshaft::ops
