// The reference evaluation of if, check and loop.
#include "ir/ops/control_flow.h"

#include <algorithm>
#include <limits>
#include <set>

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

// Whether floats have a say in how long a loop goes on. With noise one that waits for numbers to settle might never
// end.
bool decides_by_floats(const Graph& body) {
  std::set<ValueId> wanted = {body.outputs[0]};
  for (auto node = body.nodes.rbegin(); node != body.nodes.rend(); ++node) {
    if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) { return wanted.contains(id); }))
      continue;
    wanted.insert(node->inputs.begin(), node->inputs.end());
  }
  return std::any_of(wanted.begin(), wanted.end(), [&](ValueId id) {
    return id != no_value && !body.is_constant(id) && is_floating(body.type(id).dtype);
  });
}

}  // namespace

std::vector<Tensor> If::evaluate(const EvalContext& context) const {
  const bool condition = single_bool(context.input(0), "the condition");
  const std::vector<Tensor> inputs(context.inputs.begin() + 1, context.inputs.end());
  EvaluateOptions options = body_options(context);
  std::vector<Tensor> results = run_body(context, context.bodies.at(condition ? 0 : 1), inputs, options);
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
  EvaluateOptions options = body_options(context);
  if (decides_by_floats(body)) options.noise = options.noise_of_bodies = {};
  std::vector<Tensor> inputs = context.inputs;
  const auto single_dims = [&](size_t input) { return Dims(body.type(body.inputs[input]).shape.size(), 1); };
  std::vector<std::vector<Tensor>> parts(collected);
  for (int64_t i = 0; i < trips && go_on; ++i) {
    if (context.cancellation) context.cancellation->check("running a loop");
    inputs[0] = Tensor::of(DType::i64, single_dims(0), std::vector<int64_t>{i});
    inputs[1] = Tensor::scalar(DType::boolean, 1).reshaped(single_dims(1));
    std::vector<Tensor> results = run_body(context, body, inputs, options);
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
