#include "onnx/export/attributes.h"

namespace camshaft::onnx {

AttributeProto& Attributes::add(std::string_view name, AttributeType type) {
  AttributeProto& attribute = list_.emplace_back();
  attribute.name = name;
  attribute.type = type;
  return attribute;
}

Attributes& Attributes::integer(std::string_view name, int64_t value) {
  add(name, AttributeType::int_).i = value;
  return *this;
}

Attributes& Attributes::number(std::string_view name, double value) {
  add(name, AttributeType::float_).f = static_cast<float>(value);
  return *this;
}

Attributes& Attributes::text(std::string_view name, std::string_view value) {
  add(name, AttributeType::string).s = value;
  return *this;
}

Attributes& Attributes::integers(std::string_view name, std::vector<int64_t> values) {
  add(name, AttributeType::ints).ints = std::move(values);
  return *this;
}

Attributes& Attributes::numbers(std::string_view name, const std::vector<double>& values) {
  std::vector<float>& floats = add(name, AttributeType::floats).floats;
  for (const double value : values) floats.push_back(static_cast<float>(value));
  return *this;
}

Attributes& Attributes::texts(std::string_view name, std::vector<std::string> values) {
  add(name, AttributeType::strings).strings = std::move(values);
  return *this;
}

Attributes& Attributes::tensor(std::string_view name, TensorProto value) {
  add(name, AttributeType::tensor).tensors.push_back(std::move(value));
  return *this;
}

Attributes& Attributes::graph(std::string_view name, GraphProto value) {
  add(name, AttributeType::graph).graphs.push_back(std::move(value));
  return *this;
}

Attributes& Attributes::type(std::string_view name, TypeProto value) {
  add(name, AttributeType::type_proto).type_protos.push_back(std::move(value));
  return *this;
}

}  // namespace camshaft::onnx
