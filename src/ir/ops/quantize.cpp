#include "ir/ops/quantize.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// Whether `parameter` is a scale or zero point of x; the failure names `what`.
void check_steps(std::string_view what, const Shape& parameter, const Shape& x, int64_t axis, int64_t block) {
  if (parameter.empty()) return;
  check_axis(axis, static_cast<int64_t>(x.size()));
  const auto at = static_cast<size_t>(axis);
  if (parameter.size() == 1 && (x.size() > 1 || block == 0)) {
    if (provably_different(parameter[0], x[at]))
      fail_rule("the {} has {} elements, axis {} of the input {}", what, parameter[0].str(), axis, x[at].str());
    return;
  }
  if (parameter.size() != x.size())
    fail_rule("the {} has {} axes; for an input of {} axes it has 0, 1 or {}", what, parameter.size(), x.size(),
              x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (parameter[i] == Dim(1) || parameter[i] == x[i] || (i != at && !provably_different(parameter[i], x[i])))
      continue;
    if (i != at)
      fail_rule("axis {} has size {} in the {} and {} in the input", i, parameter[i].str(), what, x[i].str());
    if (block == 0)
      fail_rule("block_size is missing: {} blocks in the {} for {} elements along axis {}", parameter[i].str(), what,
                x[i].str(), axis);
    if (provably_different(parameter[i], ceil_div(x[i], block)))
      fail_rule("{} elements along axis {} are not {} blocks of {}", x[i].str(), axis, parameter[i].str(), block);
  }
}

void check_parameters(const InferContext& context, int64_t axis, int64_t block) {
  if (context.input_count() < 2 || context.input_count() > 3)
    fail_rule("x, a scale and perhaps a zero point are wanted, not {} inputs", context.input_count());
  if (block < 0) fail_rule("block_size {} is negative", block);
  const DType scale = context.dtype(1);
  if (holds_objects(scale) || scale == DType::boolean) fail_rule("the scale is {}", to_string(scale));
  check_steps("scale", context.shape(1), context.shape(0), axis, block);
  if (context.has(2)) check_steps("zero point", context.shape(2), context.shape(0), axis, block);
}

}  // namespace

bool is_quantized_type(DType dtype) {
  return dtype != DType::f8e8m0 && !holds_objects(dtype) && dtype != DType::boolean &&
         (bit_width(dtype) <= 8 || dtype == DType::i16 || dtype == DType::u16);
}

StepRange step_range(DType dtype) {
  const double count = 1 << bit_width(dtype), lowest = is_signed(dtype) ? -count / 2 : 0;
  return {lowest, lowest + count - 1};
}

std::vector<Inferred> Quantize::infer(const InferContext& context) const {
  check_parameters(context, axis, block);
  if (!is_quantized_type(dtype)) fail_rule("numbers are not quantised to {}", to_string(dtype));
  if (!is_floating(precision)) fail_rule("quotients are not rounded to {}", to_string(precision));
  const DType x = context.dtype(0);
  if (holds_objects(x) || x == DType::boolean) fail_rule("{} is not quantised", to_string(x));
  if (context.has(2) && context.dtype(2) != dtype)
    fail_rule("the zero point is {}, the output {}", to_string(context.dtype(2)), to_string(dtype));
  return {{{dtype, context.shape(0)}}};
}

std::vector<Inferred> Dequantize::infer(const InferContext& context) const {
  check_parameters(context, axis, block);
  const DType x = context.dtype(0);
  if (!is_quantized_type(x) && x != DType::i32 && x != DType::f32) fail_rule("{} is no quantised type", to_string(x));
  if (!is_floating(dtype)) fail_rule("numbers are not dequantised to {}", to_string(dtype));
  const bool real_zero = context.has(2) && context.dtype(2) == DType::f32 && x != DType::i32;
  if (context.has(2) && context.dtype(2) != x && !real_zero)
    fail_rule("the zero point is {}, the input {}", to_string(context.dtype(2)), to_string(x));
  return {{{dtype, context.shape(0)}}};
}

}  // namespace camshaft::ops
