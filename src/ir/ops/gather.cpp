// Reads and writes at indices that are data.
#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> Gather::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_axis(axis, context.rank(0));
  check_index_dtype(context.dtype(1), "the indices");
  const auto at = x.shape.begin() + axis;
  Inferred out{{x.dtype, Shape(x.shape.begin(), at)}};
  const Shape& indices = context.shape(1);
  out.type.shape.insert(out.type.shape.end(), indices.begin(), indices.end());
  out.type.shape.insert(out.type.shape.end(), at + 1, x.shape.end());

  const auto picks = known_content(context, 1);
  const auto size = at->as_constant();
  if (!picks || !size) return {out};
  const auto content = known_content(context, 0);
  std::vector<Dim> picked;
  for (const Dim& pick : *picks) {
    if (!pick.is_constant()) return {out};
    const int64_t i = checked_index(pick.value(), *size, axis);
    if (content) picked.push_back(content->at(static_cast<size_t>(i)));
  }
  if (content) out.content = std::move(picked);
  return {out};
}

std::vector<Inferred> GatherElements::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  check_axis(axis, context.rank(0));
  check_index_dtype(context.dtype(1), "the indices");
  const Shape& indices = context.shape(1);
  if (indices.size() != x.shape.size())
    fail_rule("the indices have {} axes, the input {}", indices.size(), x.shape.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto more = (indices[i] - x.shape[i]).lower_bound();
    if (i != static_cast<size_t>(axis) && more && *more > 0)
      fail_rule("the indices have {} elements on axis {}, the input {}", indices[i].str(), i, x.shape[i].str());
  }
  return {Inferred{{x.dtype, indices}}};
}

std::vector<Inferred> ScatterND::infer(const InferContext& context) const {
  const TensorType& x = context.type(0);
  const TensorType& updates = context.type(2);
  const Shape& indices = context.shape(1);
  check_index_dtype(context.dtype(1), "the indices");
  if (updates.dtype != x.dtype)
    fail_rule("the updates are {}, the input is {}", to_string(updates.dtype), to_string(x.dtype));
  if (kind != ScatterKind::assign && (x.dtype == DType::string || is_packed(x.dtype)))
    throw Error(ErrorCode::unsupported, fmt::format("scatter_nd cannot combine {} elements, only assign them; cast to "
                                                    "a wider dtype first",
                                                    to_string(x.dtype)));
  if (indices.empty()) fail_rule("the indices must have at least one axis");
  const auto depth = indices.back().as_constant();
  if (!depth) fail_rule("the last axis of the indices must have a known size, not {}", indices.back().str());
  if (*depth < 0 || *depth > context.rank(0))
    fail_rule("each index names {} axes, the input has {}", *depth, context.rank(0));
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), x.shape.begin() + *depth, x.shape.end());
  if (expected.size() != updates.shape.size())
    fail_rule("the updates must have {} axes, not {}", expected.size(), updates.shape.size());
  for (size_t i = 0; i < expected.size(); ++i) same_size(expected[i], updates.shape[i], "the updates do not fit", i);
  return {Inferred{x}};
}

}  // namespace camshaft::ops
