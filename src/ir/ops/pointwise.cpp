#include "ir/ops/pointwise.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/content.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

using F = ScalarFunction;

[[noreturn]] void reject(F function, DType dtype, std::string_view wants) {
  throw Error(ErrorCode::invalid_model,
              fmt::format("'{}' takes {}, got {}", to_string(function), wants, to_string(dtype)));
}

void check_dtype(F function, DType dtype) {
  switch (function) {
    case F::logical_not:
    case F::logical_and:
    case F::logical_or:
    case F::logical_xor:
      if (dtype != DType::boolean) reject(function, dtype, "bool");
      return;
    case F::equal:
    case F::select:
      return;  // any
    default:
      break;
  }
  if (dtype == DType::string) reject(function, dtype, "numbers");
  if (is_floating(dtype)) {
    if (!takes_reals(function)) reject(function, dtype, "integers");
  } else if (!takes_integers(function)) {
    reject(function, dtype, "floating-point numbers");
  } else if (dtype == DType::boolean && function != F::min && function != F::max && function != F::less &&
             function != F::less_or_equal) {
    reject(function, dtype, "numbers");
  }
}

Content known(const InferContext& context, size_t i) {
  return context.rank(i) <= 1 ? context.content(i) : std::nullopt;
}

}  // namespace

std::vector<Inferred> Pointwise::infer(const InferContext& context) const {
  const auto operands = static_cast<size_t>(arity(function));
  if (context.input_count() != operands)
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' takes {} inputs, got {}", to_string(function), operands, context.input_count()));
  const bool is_select = function == F::select;
  const DType dtype = context.dtype(operands - 1);
  check_dtype(function, dtype);
  Shape shape;
  std::vector<Content> contents;
  for (size_t i = 0; i < operands; ++i) {
    const DType expected = is_select && i == 0 ? DType::boolean : dtype;
    if (context.dtype(i) != expected)
      throw Error(ErrorCode::invalid_model, fmt::format("input {} of '{}' must be {}, got {}", i, to_string(function),
                                                        to_string(expected), to_string(context.dtype(i))));
    shape = i == 0 ? context.shape(0) : broadcast_shapes(shape, context.shape(i));
    contents.push_back(known(context, i));
  }
  Inferred out{{result_dtype(function, dtype), shape}};
  if (shape.size() <= 1 && dtype != DType::string) {
    // The number of elements must be known too: an unknown operand of select may be longer than the others.
    const auto count = shape.empty() ? std::optional<int64_t>(1) : shape[0].as_constant();
    Content content = count ? fold_pointwise(function, dtype, contents) : std::nullopt;
    if (content && content->size() == 1 && *count > 1 && *count <= static_cast<int64_t>(max_content_elements))
      content->resize(static_cast<size_t>(*count), (*content)[0]);
    if (content && static_cast<int64_t>(content->size()) == *count) out.content = std::move(content);
  }
  return {std::move(out)};
}

std::vector<Inferred> Cast::infer(const InferContext& context) const {
  if (context.input_count() != 1)
    throw Error(ErrorCode::invalid_model, fmt::format("a cast has one input, not {}", context.input_count()));
  Inferred out{{to, context.shape(0)}};
  if (context.rank(0) <= 1) out.content = fold_cast(context.dtype(0), to, context.content(0));
  return {std::move(out)};
}

}  // namespace camshaft::ops
