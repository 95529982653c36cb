#include "onnx/convert_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "onnx/operator_schema.h"
#include "onnx/quote.h"
#include "onnx/size_fractions.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

void ConvertContext::fail(ErrorCode code, const std::string& what) const {
  throw NodeError(code, fmt::format("node {} ({}): {}", quote(source_), node_.op_type, what));
}

ValueId ConvertContext::input(size_t i) const {
  if (!has(i)) invalid(fmt::format("input {} is missing", i));
  return inputs_[i];
}

const TensorType& ConvertContext::type(ValueId id) const {
  if (id == no_value) invalid("an input that it needs is missing");
  return graph().type(id);
}

bool ConvertContext::is_constant(ValueId id) const {
  const ReplaceableScope is_not_read(nullptr);
  return constant(id) != nullptr;
}

const Dim& ConvertContext::dim(ValueId id, int64_t axis) const {
  const Shape& s = shape(id);
  if (axis < 0 || axis >= static_cast<int64_t>(s.size()))
    invalid(fmt::format("'{}' has {} axes, but its axis {} is needed", graph().value(id).name, s.size(), axis));
  return s[static_cast<size_t>(axis)];
}

const Values& ConvertContext::all_inputs() const {
  if (inputs_.empty()) invalid("it has no inputs");
  for (size_t i = 0; i < inputs_.size(); ++i) input(i);
  return inputs_;
}

std::optional<std::vector<Dim>> ConvertContext::cut_to_sizes(ValueId id) const {
  return onnx::cut_to_sizes(graph(), target_.constants, id);
}

std::vector<int64_t> ConvertContext::ints(ValueId id, std::string_view what) const {
  const auto tensor = constant(id);
  if (!tensor) unsupported(fmt::format("{} must be known when the model is built", what));
  if (!is_integer(tensor->dtype())) invalid(fmt::format("{} must be integers, not {}", what, to_string(dtype(id))));
  return tensor->to_ints();
}

int64_t ConvertContext::static_size(const Dim& d, std::string_view what) const {
  if (!d.is_constant()) unsupported(fmt::format("{} must be a number, it is {}", what, d.str()));
  return d.value();
}

const AttributeProto* ConvertContext::attribute(std::string_view name, AttributeType type) const {
  const AttributeProto* a = node_.find_attribute(name);
  if (a && a->type != type)
    invalid(fmt::format("attribute '{}' must be {}, it is {}", name, attribute_type_name(type),
                        attribute_type_name(a->type)));
  return a;
}

int64_t ConvertContext::int_attribute(std::string_view name, std::optional<int64_t> otherwise) const {
  const AttributeProto* a = attribute(name, AttributeType::int_);
  if (!a && !otherwise) invalid(fmt::format("attribute '{}' is missing", name));
  return a ? a->i : *otherwise;
}

double ConvertContext::float_attribute(std::string_view name, std::optional<double> otherwise) const {
  const AttributeProto* a = attribute(name, AttributeType::float_);
  if (!a && !otherwise) invalid(fmt::format("attribute '{}' is missing", name));
  return a ? static_cast<double>(a->f) : *otherwise;
}

std::string ConvertContext::string_attribute(std::string_view name, std::optional<std::string> otherwise) const {
  const AttributeProto* a = attribute(name, AttributeType::string);
  if (!a && !otherwise) invalid(fmt::format("attribute '{}' is missing", name));
  return a ? a->s : *otherwise;
}

std::optional<std::vector<int64_t>> ConvertContext::ints_attribute(std::string_view name) const {
  const AttributeProto* a = attribute(name, AttributeType::ints);
  if (!a) return std::nullopt;
  return a->ints;
}

std::optional<std::vector<double>> ConvertContext::floats_attribute(std::string_view name) const {
  const AttributeProto* a = attribute(name, AttributeType::floats);
  if (!a) return std::nullopt;
  return std::vector<double>(a->floats.begin(), a->floats.end());
}

std::optional<Tensor> ConvertContext::tensor_attribute(std::string_view name) const {
  const AttributeProto* a = attribute(name, AttributeType::tensor);
  if (!a) return std::nullopt;
  return to_tensor(tensors().read(a->tensors.at(0), fmt::format("attribute '{}'", name)));
}

std::optional<std::vector<int64_t>> ConvertContext::ints_from(std::string_view attribute_name,
                                                              size_t input_index) const {
  if (auto list = ints_attribute(attribute_name)) return list;
  if (has(input_index)) return ints(inputs_[input_index], fmt::format("input {} ({})", input_index, attribute_name));
  return std::nullopt;
}

int64_t ConvertContext::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank) invalid(fmt::format("axis {} does not exist: the tensor has {} axes", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> ConvertContext::axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t& a : axes) a = axis(a, rank);
  auto sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) invalid("an axis is listed twice");
  return axes;
}

const TypeProto* ConvertContext::declared_type(size_t i) const {
  if (!uses_output(i)) return nullptr;
  const auto it = declared_.find(node_.outputs[i]);
  return it == declared_.end() ? nullptr : it->second;
}

int64_t ConvertContext::declared_rank(size_t i) const {
  const TypeProto* type = declared_type(i);
  return type && type->kind == TypeProto::Kind::tensor && type->shape ? static_cast<int64_t>(type->shape->size()) : -1;
}

const GraphProto& ConvertContext::graph_attribute(std::string_view name) const {
  const AttributeProto* a = attribute(name, AttributeType::graph);
  if (!a) invalid(fmt::format("attribute '{}' is missing", name));
  return a->graphs.at(0);
}

int64_t ConvertContext::declared_rank(size_t i, std::string_view what) const {
  if (const int64_t rank = declared_rank(i); rank >= 0) return rank;
  unsupported(
      fmt::format("{} is known only when running, and the model does not say how many axes output {} has: "
                  "declare its shape in the model's value_info, or give the list a fixed length",
                  what, quote(output_name(i))));
}

std::string ConvertContext::output_name(size_t i) const {
  return i < node_.outputs.size() && !node_.outputs[i].empty() ? prefix_ + node_.outputs[i] : source_;
}

ValueId ConvertContext::append(Op op, Values inputs, const std::string& name) {
  try {
    return graph().add(std::move(op), std::move(inputs), name, {source_});
  } catch (const Error& e) {  // names the node
    throw NodeError(e.code(), e.what());
  }
}

ValueId ConvertContext::add(Op op, Values inputs) {
  const std::string name = output_name(0) + "." + std::string(op.name());
  return append(std::move(op), std::move(inputs), name);
}

ValueId ConvertContext::add(ScalarFunction function, Values inputs) {
  return append(ops::Pointwise{function}, std::move(inputs), output_name(0) + "." + std::string(to_string(function)));
}

ValueId ConvertContext::result_at(size_t i, Op op, Values inputs) {
  return append(std::move(op), std::move(inputs), output_name(i));
}

Values ConvertContext::results_at(const std::vector<size_t>& outputs, Op op, Values inputs) {
  std::vector<std::string> names;
  for (const size_t i : outputs) names.push_back(output_name(i));
  return append_node(std::move(op), std::move(inputs), names, {});
}

Values ConvertContext::append_node(Op op, Values inputs, const std::vector<std::string>& names,
                                   std::vector<Graph> bodies) {
  try {
    return graph().add_node(std::move(op), std::move(inputs), names, {source_}, std::move(bodies));
  } catch (const Error& e) {  // names the node
    throw NodeError(e.code(), e.what());
  }
}

Values ConvertContext::add_all(Op op, Values inputs, size_t outputs) {
  std::vector<std::string> names;
  for (size_t i = 0; i < outputs; ++i) names.push_back(fmt::format("{}.{}{}", output_name(0), op.name(), i));
  return append_node(std::move(op), std::move(inputs), names, {});
}

Values ConvertContext::add_all(Op op, Values inputs, const std::vector<std::string>& names) {
  return append_node(std::move(op), std::move(inputs), names, {});
}

Values ConvertContext::results(Op op, Values inputs, std::vector<Graph> bodies) {
  std::vector<std::string> names;
  for (size_t i = 0; i < output_count(); ++i) names.push_back(output_name(i));
  return append_node(std::move(op), std::move(inputs), names, std::move(bodies));
}

Values ConvertContext::result(ScalarFunction function, Values inputs) {
  return result(ops::Pointwise{function}, std::move(inputs));
}

ValueId ConvertContext::add_constant(Tensor tensor) {
  return add_constant(literal(std::move(tensor)));
}

ValueId ConvertContext::add_constant(Constant constant) {
  return graph().add_constant(output_name(0) + ".constant", std::move(constant));
}

ValueId ConvertContext::add_named_constant(Tensor tensor) {
  const std::string name = node_.outputs.empty() ? "" : node_.outputs[0];
  return graph().add_constant(name, target_.named.add(prefix_, name, std::move(tensor)));
}

ValueId ConvertContext::reshape(ValueId id, Shape to) {
  return shape(id) == to ? id : add(ops::Reshape{std::move(to)}, {id});
}

ValueId ConvertContext::scalar(DType dtype, double value) {
  if (holds_objects(dtype)) invalid(fmt::format("it takes numbers, not {}", to_string(dtype)));
  return add_constant(Tensor::scalar(dtype, value));
}

ValueId ConvertContext::widened(ValueId id) {
  return dtype(id) == DType::f16 || dtype(id) == DType::bf16 ? cast(id, DType::f32) : id;
}

ValueId ConvertContext::cast(ValueId id, DType to) {
  return dtype(id) == to ? id : add(ops::Cast{to}, {id});
}

Dim ConvertContext::fresh(size_t i, size_t axis) const {
  return Dim::symbol(fmt::format("@{}.{}", output_name(i), axis));
}

Dim product(const Shape& shape, int64_t begin, int64_t end) {
  Dim out = 1;
  for (int64_t i = begin; i < end; ++i) out = out * shape[static_cast<size_t>(i)];
  return out;
}

}  // namespace camshaft::onnx
