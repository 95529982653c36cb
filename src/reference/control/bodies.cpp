#include "reference/control/bodies.h"

#include "ir/ops/bodies.h"
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"
#include "ir/symbols.h"
#include "reference/evaluate.h"
#include "reference/move/axis_slice.h"

namespace camshaft::ops {

void own_results(std::vector<Tensor>& results) {
  for (Tensor& result : results) result = result.owned();
}

EvaluateOptions body_options(const EvalContext& context) {
  EvaluateOptions options;
  options.bindings = context.bindings;
  options.cancellation = context.cancellation;
  options.checks_elements = false;
  if (context.noise) options.noise = options.noise_of_bodies = context.noise->noise;
  return options;
}

std::vector<Tensor> run_body(const EvalContext& context, const Graph& body, const std::vector<Tensor>& inputs,
                             EvaluateOptions& options) {
  if (context.noise) options.noise_seed = context.noise->random.next();
  return camshaft::evaluate(body, inputs, context.pool, options);
}

Tensor stack(const EvalContext& context, std::vector<Tensor> parts, int64_t axis) {
  const Dims dims = parts.at(0).dims();
  for (Tensor& part : parts) {
    if (part.dims() != dims)
      fail_rule("an iteration gave {} to collect, the first one {}", to_string(part.dims()), to_string(dims));
    part = part.reshaped(with_axis(dims, axis));
  }
  return Concat{axis}.evaluate({parts, context.output_types, context.bindings, context.bodies, context.pool})[0];
}

Tensor empty_result(const EvalContext& context, const TensorType& type) {
  Dims dims;
  for (const Dim& d : type.shape) dims.push_back(is_bound({d}, context.bindings) ? context.evaluate(d) : 0);
  return Tensor(type.dtype, dims);
}

}  // namespace camshaft::ops
