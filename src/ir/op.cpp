#include "ir/op.h"

#include <fmt/format.h>

#include "ir/container_type.h"
#include "ir/graph.h"

namespace camshaft {

std::string to_string(const TensorType& type) {
  std::string out(to_string(type.dtype));
  if (type.dtype == DType::map && type.elements.size() == 2)
    return fmt::format("{}<{}, {}>", out, to_string(type.elements[0].dtype), to_string(type.elements[1].dtype));
  if (type.dtype != DType::optional) {
    out += type.ranked ? "[" : "[*";
    for (size_t i = 0; i < type.shape.size(); ++i)
      out += (i ? ", " : "") + (type.shape[i] == unknown_dim() ? "?" : type.shape[i].str());
    out += "]";
  }
  for (const TensorType& element : type.elements) out += "<" + to_string(element) + ">";
  return out;
}

std::string to_string(const Op& op) {
  std::string out(op.name());
  const Fields fields = op.fields();
  if (fields.empty()) return out;
  out += " {";
  for (size_t i = 0; i < fields.size(); ++i)
    out += (i ? ", " : "") + fields[i].first + "=" + to_string(fields[i].second);
  return out + "}";
}

const Value& InferContext::value(size_t i) const {
  if (!has(i)) throw Error(ErrorCode::invalid_model, fmt::format("input {} is missing", i));
  return *inputs_[i];
}
const TensorType& InferContext::type(size_t i) const {
  return value(i).type;
}
std::optional<std::vector<Dim>> InferContext::content(size_t i) const {
  return value(i).content;
}
std::shared_ptr<const Tensor> InferContext::constant(size_t i) const {
  const std::shared_ptr<const Tensor>& tensor = value(i).constant;
  return tensor && tensor->is_elided() ? nullptr : tensor;
}
Dim InferContext::fresh(size_t output, size_t axis) const {
  return Dim::symbol(fmt::format("@{}.{}", output_names_.at(output), axis));
}
size_t InferContext::body_count() const {
  return bodies_ ? bodies_->size() : 0;
}
const Graph& InferContext::body(size_t i) const {
  if (i >= body_count()) throw Error(ErrorCode::invalid_model, fmt::format("sub-graph {} is missing", i));
  return (*bodies_)[i];
}

Dims EvalContext::evaluate(const Shape& shape) const {
  Dims dims;
  dims.reserve(shape.size());
  for (const Dim& d : shape) dims.push_back(d.evaluate(bindings));
  return dims;
}

Op OpRegistry::make(std::string_view name, const Fields& fields) const {
  const auto it = makers_.find(name);
  if (it == makers_.end()) throw Error(ErrorCode::invalid_argument, fmt::format("unknown operator '{}'", name));
  return it->second(fields);
}

std::vector<std::string> OpRegistry::names() const {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers_) names.push_back(name);
  return names;
}

}  // namespace camshaft
