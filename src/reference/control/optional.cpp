// The reference evaluation of optional, optional_get_element and optional_has_element.
#include "ir/ops/optional.h"

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Tensor> MakeOptional::evaluate(const EvalContext& context) const {
  return {Tensor::optional(context.has(0) ? context.input(0) : Tensor())};
}

std::vector<Tensor> OptionalGetElement::evaluate(const EvalContext& context) const {
  const Tensor& element = context.input(0).element(0);
  if (!element.defined()) fail_rule("the optional is empty");
  return {element.owned()};
}

std::vector<Tensor> OptionalHasElement::evaluate(const EvalContext& context) const {
  return {Tensor::scalar(DType::boolean, context.input(0).element(0).defined() ? 1 : 0)};
}

}  // namespace camshaft::ops
