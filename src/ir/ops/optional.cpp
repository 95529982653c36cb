#include "ir/ops/optional.h"

#include "ir/container_type.h"
#include "ir/ops/sequence.h"
#include "ir/ops/shape_rules.h"
#include "ir/text.h"

namespace camshaft::ops {

namespace {

const TensorType& optional_type(const InferContext& context) {
  const TensorType& type = context.type(0);
  if (type.dtype != DType::optional) fail_rule("input 0 must be an optional, it is {}", to_string(type));
  return type;
}

}  // namespace

std::vector<Inferred> MakeOptional::infer(const InferContext& context) const {
  if (!context.has(0) && element.empty()) fail_rule("an empty optional needs a type");
  if (!context.has(0)) return {{optional_of(parse_element_type(element))}};
  const TensorType given = element_type(context.type(0));
  return {{optional_of(element.empty() ? given : join_elements(parse_element_type(element), given))}};
}

std::vector<Inferred> OptionalGetElement::infer(const InferContext& context) const {
  return {{taken_out(context, optional_type(context).elements[0], rank, 0)}};
}

std::vector<Inferred> OptionalHasElement::infer(const InferContext& context) const {
  optional_type(context);
  return {{{DType::boolean, {}}}};
}

}  // namespace camshaft::ops
