// The reference evaluation of scan.
#include "ir/ops/scan.h"

#include <algorithm>

#include "ir/ops/shape_rules.h"
#include "reference/control/bodies.h"
#include "reference/elements.h"
#include "reference/evaluate.h"
#include "reference/move/axis_slice.h"

namespace camshaft::ops {

std::vector<Tensor> Scan::evaluate(const EvalContext& context) const {
  const Graph& body = context.bodies.at(0);
  const auto count = static_cast<size_t>(states);
  const size_t scanned = input_axes.size(), collected = output_axes.size();
  const auto size_of = [&](size_t i) { return context.input(count + i).dims().at(static_cast<size_t>(input_axes[i])); };
  const int64_t length = size_of(0);
  std::vector<Tensor> sources;
  for (size_t i = 0; i < scanned; ++i) {
    if (size_of(i) != length) fail_rule("scanned input {} has {} slices, the first one {}", i, size_of(i), length);
    sources.push_back(unpack_subbyte(context.input(count + i)));
  }
  EvaluateOptions options = body_options(context);
  std::vector<Tensor> inputs = context.inputs;
  std::vector<std::vector<Tensor>> parts(collected);
  for (int64_t n = 0; n < length; ++n) {
    if (context.cancellation) context.cancellation->check("scanning");
    for (size_t i = 0; i < scanned; ++i) {
      const int64_t axis = input_axes[i];
      const Tensor slice = slice_axis(sources[i], axis, input_reversed[i] != 0 ? length - 1 - n : n, 1);
      inputs[count + i] =
          pack_subbyte(slice.reshaped(without_axis(slice.dims(), axis)), context.input(count + i).dtype());
    }
    std::vector<Tensor> results = run_body(context, body, inputs, options);
    for (size_t s = 0; s < count; ++s) inputs[s] = std::move(results[s]);
    for (size_t c = 0; c < collected; ++c) parts[c].push_back(std::move(results[count + c]));
  }
  std::vector<Tensor> out(inputs.begin(), inputs.begin() + states);
  own_results(out);
  for (size_t c = 0; c < collected && count + c < context.output_types.size(); ++c) {
    if (parts[c].empty()) {
      out.push_back(empty_result(context, context.output_types[count + c]));
      continue;
    }
    if (output_reversed[c] != 0) std::reverse(parts[c].begin(), parts[c].end());
    out.push_back(stack(context, std::move(parts[c]), output_axes[c]));
  }
  return out;
}

}  // namespace camshaft::ops
