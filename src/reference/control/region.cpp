// The reference evaluation of region.
#include "ir/ops/region.h"

#include "reference/evaluate.h"

namespace camshaft::ops {

std::vector<Tensor> Region::evaluate(const EvalContext& context) const {
  EvaluateOptions options;
  options.bindings = context.bindings;
  return camshaft::evaluate(context.bodies.at(0), context.inputs, context.pool, options);
}

}  // namespace camshaft::ops
