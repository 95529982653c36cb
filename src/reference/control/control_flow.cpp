// The reference evaluation of if, check and loop.
#include "ir/ops/control_flow.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/ops/shape_rules.h"
#include "reference/control/bodies.h"
#include "reference/evaluate.h"

namespace camshaft::ops {

namespace {

bool single_bool(const Tensor& tensor, const char* what) {
  if (tensor.size() != 1) fail_rule("{} has {} elements instead of one", what, tensor.size());
  return tensor.as<uint8_t>()[0] != 0;
}

}  // namespace

std::vector<Tensor> If::evaluate(const EvalContext& context) const {
  const bool condition = single_bool(context.input(0), "the condition");
  const std::vector<Tensor> inputs(context.inputs.begin() + 1, context.inputs.end());
  std::vector<Tensor> results =
      camshaft::evaluate(context.bodies.at(condition ? 0 : 1), inputs, context.pool, body_options(context));
  own_results(results);
  return results;
}

std::vector<Tensor> Check::evaluate(const EvalContext& context) const {
  if (single_bool(context.input(0), "the condition") != wanted) throw Error(ErrorCode::invalid_argument, message);
  return {context.input(1).owned()};
}

std::vector<Tensor> Loop::evaluate(const EvalContext& context) const {
  const Graph& body = context.bodies.at(0);
  const auto count = static_cast<size_t>(carried);
  // What nobody takes may be of any type, and is not kept.
  const size_t collected = std::max(std::min(body.outputs.size() - 1, context.output_types.size()), count) - count;
  int64_t trips = std::numeric_limits<int64_t>::max();
  if (context.has(0)) {
    if (context.input(0).size() != 1)
      fail_rule("the trip count has {} elements instead of one", context.input(0).size());
    trips = context.input(0).as<int64_t>()[0];
  }
  bool go_on = !context.has(1) || single_bool(context.input(1), "the condition");
  const EvaluateOptions options = body_options(context);
  std::vector<Tensor> inputs = context.inputs;
  const auto single_dims = [&](size_t input) { return Dims(body.type(body.inputs[input]).shape.size(), 1); };
  std::vector<std::vector<Tensor>> parts(collected);
  for (int64_t i = 0; i < trips && go_on; ++i) {
    if (context.cancellation) context.cancellation->check("running a loop");
    inputs[0] = Tensor::of(DType::i64, single_dims(0), std::vector<int64_t>{i});
    inputs[1] = Tensor::scalar(DType::boolean, 1).reshaped(single_dims(1));
    std::vector<Tensor> results = camshaft::evaluate(body, inputs, context.pool, options);
    go_on = single_bool(results[0], "the condition that the body gives");
    for (size_t c = 0; c < count; ++c) inputs[2 + c] = std::move(results[1 + c]);
    for (size_t c = 0; c < collected; ++c) parts[c].push_back(std::move(results[1 + count + c]));
  }
  std::vector<Tensor> out(inputs.begin() + 2, inputs.begin() + 2 + static_cast<std::ptrdiff_t>(count));
  own_results(out);
  for (size_t c = 0; c < collected; ++c) {
    if (!parts[c].empty()) {
      out.push_back(stack(context, std::move(parts[c]), 0));
    } else {
      out.push_back(empty_result(context, context.output_types[count + c]));
    }
  }
  return out;
}

}  // namespace camshaft::ops
