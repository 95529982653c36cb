#include "ir/ops/control_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "ir/container_type.h"
#include "ir/ops/bodies.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

// A flag or a count: one element of rank 0, or of rank 1 as some exporters write it.
void check_single(const TensorType& type, DType dtype, const char* what) {
  const bool single = type.shape.empty() || (type.shape.size() == 1 && !provably_different(type.shape[0], Dim(1)));
  if (type.dtype != dtype || !single)
    fail_rule("{} must be one element of {}, it is {}", what, to_string(dtype), to_string(type));
}

}  // namespace

std::vector<Inferred> If::infer(const InferContext& context) const {
  check_single(context.type(0), DType::boolean, "the condition");
  const Graph& yes = context.body(0);
  const Graph& no = context.body(1);
  check_body_inputs(context, yes, 1, 0);
  check_body_inputs(context, no, 1, 0);
  if (yes.outputs.size() != no.outputs.size())
    fail_rule("one branch has {} results, the other {}", yes.outputs.size(), no.outputs.size());
  const VisibleDims visible(context);
  std::vector<Inferred> out;
  for (size_t o = 0; o < std::min(yes.outputs.size(), context.output_count()); ++o) {
    const TensorType& a = yes.type(yes.outputs[o]);
    const TensorType& b = no.type(no.outputs[o]);
    const auto types = [&] { return fmt::format("{} in one branch and {} in the other", to_string(a), to_string(b)); };
    if (a.dtype != b.dtype) fail_rule("result {} is {}", o, types());
    if (a.shape.size() != b.shape.size())
      throw Error(ErrorCode::unsupported,
                  fmt::format("result {} is {}; branches whose results differ in rank are not supported", o, types()));
    TensorType type = a;
    for (size_t axis = 0; axis < type.shape.size(); ++axis)
      if (!(a.shape[axis] == b.shape[axis]) || !visible.contain(a.shape[axis]))
        type.shape[axis] = context.fresh(o, axis);
    for (size_t i = 0; i < type.elements.size(); ++i) type.elements[i] = join_elements(a.elements[i], b.elements[i]);
    out.push_back({std::move(type)});
  }
  return out;
}

std::vector<Inferred> Check::infer(const InferContext& context) const {
  if (context.input_count() != 2 || !context.has(0) || !context.has(1)) fail_rule("it needs a condition and a value");
  check_single(context.type(0), DType::boolean, "the condition");
  return {{context.type(1)}};
}

std::vector<Inferred> Loop::infer(const InferContext& context) const {
  const Graph& body = context.body(0);
  const auto count = static_cast<size_t>(std::max<int64_t>(carried, 0));
  if (carried < 0 || context.input_count() < 2 || count > context.input_count() - 2)
    fail_rule("a loop that carries {} values cannot have {} inputs", carried, context.input_count());
  if (context.has(0)) check_single(context.type(0), DType::i64, "the trip count");
  if (context.has(1)) check_single(context.type(1), DType::boolean, "the condition");
  check_body_inputs(context, body, 2, 2);
  const auto takes_single = [&](size_t input, DType dtype) {
    const TensorType& type = body.type(body.inputs[input]);
    return type == TensorType{dtype, {}} || type == TensorType{dtype, {1}};
  };
  if (!takes_single(0, DType::i64) || !takes_single(1, DType::boolean))
    fail_rule("the body must take the iteration (i64, one element) and the condition (bool, one element)");
  if (body.outputs.size() < 1 + count)
    fail_rule("the body gives {} results, {} are needed", body.outputs.size(), 1 + count);
  check_single(body.type(body.outputs[0]), DType::boolean, "the condition that the body gives");

  const VisibleDims visible(context);
  std::vector<Inferred> out;
  for (size_t o = 0; o < std::min(body.outputs.size() - 1, context.output_count()); ++o) {
    TensorType type = body.type(body.outputs[1 + o]);
    if (o < count) {
      const TensorType& start = context.type(2 + o);
      const TensorType& inside = body.type(body.inputs[2 + o]);
      // Where the body has a symbol of its own for a size, the size may change.
      TensorType wanted = inside;
      for (size_t axis = 0; axis < wanted.shape.size() && axis < type.shape.size(); ++axis)
        if (!visible.contain(wanted.shape[axis])) wanted.shape[axis] = type.shape[axis];
      if (!fits(type, wanted))
        fail_rule("the body takes {} for what it carries and gives {}", to_string(inside), to_string(type));
      for (size_t axis = 0; axis < type.shape.size(); ++axis) {
        const bool kept = type.shape[axis] == inside.shape[axis] && inside.shape[axis] == start.shape[axis];
        if (!kept || !visible.contain(type.shape[axis])) type.shape[axis] = context.fresh(o, axis);
      }
      type.elements = inside.elements;
    } else {
      if (is_container(type.dtype)) fail_rule("{} cannot be collected", to_string(type));
      type.shape.insert(type.shape.begin(), context.fresh(o, 0));
      for (size_t axis = 1; axis < type.shape.size(); ++axis)
        if (!visible.contain(type.shape[axis])) type.shape[axis] = context.fresh(o, axis);
    }
    out.push_back({std::move(type)});
  }
  return out;
}

}  // namespace camshaft::ops
