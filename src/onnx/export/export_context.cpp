#include "onnx/export/export_context.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/ops/axis_order.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

void ExportContext::unsupported(const std::string& what) const {
  throw Error(ErrorCode::unsupported, what);
}

std::string ExportContext::value(ValueId id) {
  std::string& name = target_.names[static_cast<size_t>(id)];
  const Value& known = target_.graph.value(id);
  if (name.empty() && known.constant) name = target_.writer.named_constant(known.name, *known.constant);
  if (name.empty())
    throw Error(ErrorCode::internal, fmt::format("the value '{}' is read before it is computed", known.name));
  return name;
}

std::vector<std::string> ExportContext::inputs(size_t first) {
  std::vector<std::string> names;
  for (size_t i = first; i < node_.inputs.size(); ++i) names.push_back(input(i));
  return names;
}

const Tensor* ExportContext::constant_input(size_t i) const {
  return has(i) ? target_.graph.value(node_.inputs[i]).constant.get() : nullptr;
}

std::string ExportContext::add(const Operator& op, std::vector<std::string> inputs, Attributes attributes) {
  return target_.writer.add(op, std::move(inputs), std::move(attributes));
}

void ExportContext::result(const Operator& op, std::vector<std::string> inputs, Attributes attributes) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < node_.outputs.size(); ++i) outputs.push_back(output(i));
  add_named(op, std::move(inputs), std::move(outputs), std::move(attributes));
}

void ExportContext::add_named(const Operator& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                              Attributes attributes) {
  target_.writer.add(op, std::move(inputs), std::move(outputs), std::move(attributes));
}

std::string ExportContext::unused_name() {
  return target_.writer.model.names.unique(output(0) + "/unused");
}

int64_t ExportContext::fixed(const Dim& dim, const char* what) const {
  if (const auto number = dim.as_constant()) return *number;
  unsupported(
      fmt::format("ONNX takes {} as a number, and it depends on sizes ({}): give the model fixed shapes "
                  "(--shapes)",
                  what, dim.str()));
}

std::vector<int64_t> ExportContext::fixed(const Shape& dims, const char* what) const {
  std::vector<int64_t> numbers;
  for (const Dim& dim : dims) numbers.push_back(fixed(dim, what));
  return numbers;
}

std::string ExportContext::cast(const std::string& value, DType to) {
  return add("Cast", {value}, Attributes().integer("to", dtype_to_onnx(to)));
}

std::string ExportContext::transpose(const std::string& value, const std::vector<int64_t>& permutation) {
  return add("Transpose", {value}, Attributes().integers("perm", permutation));
}

ReshapeTarget reshape_target(const Shape& from, const Shape& to) {
  // Computed sizes may turn out to be 0, which must not copy one of the input then. Beside a size of 0, -1 has no
  // solution: only numbers, none of which is 0, tell that there is none.
  Shape short_form = to;
  size_t computed = 0, copied = 0, last = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == Dim(0)) return {to, true};
    if (to[i].is_constant()) continue;
    const bool stays = i < from.size() && from[i] == to[i];
    if (stays) short_form[i] = 0;
    if (!stays) last = i;
    ++(stays ? copied : computed);
  }
  if (computed == 0) return {short_form, false};
  if (computed > 1 || copied > 0) return {to, true};
  short_form[last] = -1;
  return {short_form, false};
}

std::string ExportContext::reshape(const std::string& value, const Shape& from, const Shape& to) {
  if (from == to) return value;
  const ReshapeTarget target = reshape_target(from, to);
  Attributes attributes;
  if (target.allow_zero) attributes.integer("allowzero", 1);
  return add("Reshape", {value, sizes(target.sizes)}, std::move(attributes));
}

std::string ExportContext::expand(const std::string& value, const Shape& from, const Shape& to) {
  return from == to ? value : add("Expand", {value, sizes(to)});
}

std::string ExportContext::channels_first(size_t i, bool channels_last) {
  if (!channels_last) return input(i);
  return transpose(input(i), ops::inverse(ops::channels_last_order(shape(i).size())));
}

void ExportContext::spatial_result(const Operator& op, std::vector<std::string> inputs, Attributes attributes,
                                   bool channels_last) {
  if (!channels_last) return result(op, std::move(inputs), std::move(attributes));
  const std::string y = add(op, std::move(inputs), std::move(attributes));
  result("Transpose", {y}, Attributes().integers("perm", ops::channels_last_order(result_type().shape.size())));
}

GraphProto ExportContext::body(size_t i, size_t inputs, size_t first_capture) {
  return export_body_(node_.bodies.at(i), inputs, this->inputs(first_capture), target_.writer);
}

}  // namespace camshaft::onnx
