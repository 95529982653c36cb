#include "onnx/input_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "onnx/declared_type.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

InputTypes::InputTypes(const std::vector<ValueInfoProto>& inputs, const ImportOptions& options,
                       std::map<std::string, int64_t> demanded)
    : options_(options), demanded_(std::move(demanded)) {
  for (const ValueInfoProto& input : inputs)
    for (size_t axis = 0; input.type.shape && axis < input.type.shape->size(); ++axis)
      if (const auto size = only_size({input.name, axis}))
        only_sizes_.try_emplace((*input.type.shape)[axis].param, *size);
}

TensorType InputTypes::type(const ValueInfoProto& input, const std::string& where) {
  if (input.type.kind != TypeProto::Kind::tensor) return container_type_from(input.type, input.name, where);
  TensorType type{dtype_from_onnx(input.type.elem_type, where), {}};
  const size_t rank = input.type.shape ? input.type.shape->size() : given_rank(input.name, where);
  check_axes(rank, where);
  for (size_t axis = 0; axis < rank; ++axis) {
    const DimensionProto d = input.type.shape ? (*input.type.shape)[axis] : DimensionProto{};
    if (d.value && *d.value > 0) {
      type.shape.emplace_back(*d.value);
    } else if (const auto size = only_size({input.name, axis})) {
      type.shape.emplace_back(*size);
    } else if (is_size_name(d.param) && !has_size({input.name, axis}) && only_sizes_.contains(d.param)) {
      type.shape.emplace_back(only_sizes_.at(d.param));
    } else if (is_size_name(d.param) && may_share(d.param, {input.name, axis})) {
      type.shape.push_back(named(d.param));
    } else {
      type.shape.push_back(named(fmt::format("{}.{}", symbol_base(input.name), axis)));
    }
  }
  return type;
}

size_t InputTypes::given_rank(const std::string& input, const std::string& where) const {
  for (const auto& shapes : options_.shapes)
    if (const auto it = shapes.find(input); it != shapes.end()) return it->second.size();
  throw Error(ErrorCode::unsupported, fmt::format("{} does not say how many axes it has; give a shape for it when "
                                                  "building (--shapes), or export the model with one",
                                                  where));
}

// Where a set of shapes gives the axis no size, any will do.
std::optional<int64_t> InputTypes::size_of(const std::map<std::string, std::vector<int64_t>>& shapes,
                                           const Axis& axis) {
  const auto it = shapes.find(axis.input);
  if (it == shapes.end() || axis.axis >= it->second.size()) return std::nullopt;
  return it->second[axis.axis];
}

bool InputTypes::has_size(const Axis& axis) const {
  return std::any_of(options_.shapes.begin(), options_.shapes.end(),
                     [&](const auto& shapes) { return size_of(shapes, axis).has_value(); });
}

// That all sets of shapes give the axis.
std::optional<int64_t> InputTypes::only_size(const Axis& axis) const {
  std::optional<int64_t> only;
  for (const auto& shapes : options_.shapes) {
    const auto size = size_of(shapes, axis);
    if (!size || *size < 1 || (only && *only != *size)) return std::nullopt;
    only = size;
  }
  return only;
}

Dim InputTypes::named(const std::string& symbol) const {
  const auto size = demanded_.find(symbol);
  return size == demanded_.end() ? Dim::symbol(symbol) : Dim(size->second);
}

// Adds the axis to those of this name unless it is given another size than one of them.
bool InputTypes::may_share(const std::string& symbol, const Axis& axis) {
  std::vector<Axis>& others = axes_[symbol];
  for (const auto& shapes : options_.shapes)
    for (const Axis& other : others) {
      const auto a = size_of(shapes, axis), b = size_of(shapes, other);
      if (a && b && *a != *b) return false;
    }
  others.push_back(axis);
  return true;
}

}  // namespace camshaft::onnx
