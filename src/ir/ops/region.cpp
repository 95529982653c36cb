#include "ir/ops/region.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft::ops {

std::vector<Inferred> Region::infer(const InferContext& context) const {
  const Graph& body = context.body(0);
  if (body.inputs.size() != context.input_count())
    throw Error(ErrorCode::invalid_model,
                fmt::format("a region has {} inputs, its body {}", context.input_count(), body.inputs.size()));
  for (size_t i = 0; i < body.inputs.size(); ++i)
    if (context.type(i) != body.type(body.inputs[i]))
      throw Error(ErrorCode::invalid_model,
                  fmt::format("input {} of a region is {}, its body takes {}", i, to_string(context.type(i)),
                              to_string(body.type(body.inputs[i]))));
  if (body.outputs.size() != context.output_count())
    throw Error(ErrorCode::invalid_model,
                fmt::format("a region has {} outputs, its body {}", context.output_count(), body.outputs.size()));
  std::vector<Inferred> out;
  for (const ValueId id : body.outputs) out.push_back({body.type(id), body.value(id).content});
  return out;
}

}  // namespace camshaft::ops
