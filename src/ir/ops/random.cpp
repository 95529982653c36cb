#include "ir/ops/random.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> RandomTensor::infer(const InferContext& context) const {
  if (dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::f32 && dtype != DType::f64)
    fail_rule("random numbers are f16, bf16, f32 or f64, not {}", to_string(dtype));
  for (size_t i = 0; i < shape.size(); ++i)
    if (const auto high = shape[i].upper_bound(); high && *high < 0)
      fail_rule("axis {} has the negative size {}", i, shape[i].str());
  return {Inferred{{dtype, context.has(0) ? context.shape(0) : shape}}};
}

std::vector<Inferred> Multinomial::infer(const InferContext& context) const {
  check_index_dtype(dtype, "the samples");
  if (context.rank(0) != 2) fail_rule("the probabilities must be 2-D, not {}-D", context.rank(0));
  if (!is_floating(context.dtype(0))) fail_rule("the probabilities are {}", to_string(context.dtype(0)));
  if (samples < 1) fail_rule("{} samples cannot be drawn", samples);
  return {Inferred{{dtype, {context.shape(0)[0], samples}}}};
}

}  // namespace camshaft::ops
