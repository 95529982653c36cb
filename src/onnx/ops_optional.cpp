// Values that may be missing.
#include <fmt/format.h>

#include "ir/container_type.h"
#include "ir/ops/optional.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

Values optional(ConvertContext& c) {
  const AttributeProto* type = c.attribute("type", AttributeType::type_proto);
  if (!type) {
    if (!c.has(0)) c.invalid("it has neither a value nor attribute 'type'");
    return c.result(ops::MakeOptional{}, {c.input(0)});
  }
  const TensorType element = element_type_from(type->type_protos.at(0), "attribute 'type'");
  Values inputs;
  if (c.has(0)) inputs.push_back(c.input(0));
  return c.result(ops::MakeOptional{to_string(element)}, std::move(inputs));
}

Values optional_get_element(ConvertContext& c) {
  const ValueId id = c.input(0);
  if (c.dtype(id) != DType::optional) return {id};
  const Node* producer = c.producer(id);
  if (producer && producer->op.as<ops::MakeOptional>()) {
    if (producer->inputs.empty()) c.invalid("the optional is empty");
    return {producer->inputs[0]};
  }
  return c.result(ops::OptionalGetElement{c.declared_rank(0)}, {id});
}

Values optional_has_element(ConvertContext& c) {
  if (!c.has(0)) return {c.scalar(DType::boolean, 0)};
  const ValueId id = c.input(0);
  if (c.dtype(id) != DType::optional) return {c.scalar(DType::boolean, 1)};
  const Node* producer = c.producer(id);
  if (producer && producer->op.as<ops::MakeOptional>())
    return {c.scalar(DType::boolean, producer->inputs.empty() ? 0 : 1)};
  return c.result(ops::OptionalHasElement{}, {id});
}

constexpr Converter optional_table[] = {
    {"Optional", optional, 15},
    {"OptionalGetElement", optional_get_element, 15},
    {"OptionalHasElement", optional_has_element, 15},
};

}  // namespace

std::span<const Converter> optional_converters() {
  return optional_table;
}

}  // namespace camshaft::onnx
