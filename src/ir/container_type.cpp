#include "ir/container_type.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/limits.h"
#include "ir/symbols.h"

namespace camshaft {

namespace {

Dim as_known_outside(const Dim& dim) {
  return names_run_time_sizes({dim}) ? unknown_dim() : dim;
}

std::string malformed(const TensorType& type, bool is_element, int nesting) {
  if (nesting > most_nested_containers)
    return fmt::format("containers are nested deeper than {}", most_nested_containers);
  if (!type.ranked && (!is_element || is_container(type.dtype) || !type.shape.empty())) return "the rank is missing";
  if (!is_element &&
      !all_symbols(type.shape, [](const std::string& name) { return name != unknown_dim().as_symbol(); }))
    return "only what containers hold may have sizes '?'";
  switch (type.dtype) {
    case DType::sequence:
      if (type.shape.size() != 1 || type.elements.size() != 1)
        return "a sequence has a length and one type of elements";
      break;
    case DType::optional:
      if (!type.shape.empty() || type.elements.size() != 1) return "an optional has no sizes and one type";
      break;
    case DType::map: {
      if (type.shape != Shape{2} || type.elements.size() != 2) return "a map has the size 2 and two types";
      for (const TensorType& element : type.elements)
        if (is_container(element.dtype) || element != TensorType{element.dtype, {unknown_dim()}})
          return "keys and values of a map have one axis";
      return "";
    }
    default:
      if (!type.elements.empty()) return "only containers have elements of a type";
  }
  for (const TensorType& element : type.elements)
    if (std::string wrong = malformed(element, true, nesting + 1); !wrong.empty()) return wrong;
  return "";
}

[[noreturn]] void refuse(const std::string& what, const Tensor& tensor, const TensorType& type) {
  const std::string found = !tensor.defined() ? "nothing"
                            : is_container(tensor.dtype())
                                ? std::string(to_string(tensor.dtype()))
                                : std::string(to_string(tensor.dtype())) + to_string(tensor.dims());
  throw Error(ErrorCode::invalid_argument, fmt::format("{} is {}, expected {}", what, found, to_string(type)));
}

void check_element(const Tensor& tensor, const TensorType& type, const std::string& what) {
  if (!tensor.defined() || tensor.dtype() != type.dtype) refuse(what, tensor, type);
  if (is_container(type.dtype)) return check_elements(tensor, type, what);
  if (!type.ranked) return;
  if (tensor.dims().size() != type.shape.size()) refuse(what, tensor, type);
  for (size_t axis = 0; axis < type.shape.size(); ++axis)
    if (const auto size = type.shape[axis].as_constant(); size && *size != tensor.dims()[axis])
      refuse(what, tensor, type);
}

}  // namespace

const Dim& unknown_dim() {
  static const Dim unknown = Dim::symbol("?");
  return unknown;
}

TensorType element_type(const TensorType& type) {
  TensorType element = type;
  for (Dim& d : element.shape) d = as_known_outside(d);
  for (TensorType& inner : element.elements) inner = element_type(inner);
  return element;
}

TensorType any_tensor(DType dtype) {
  return {dtype, {}, false};
}

TensorType sequence_of(TensorType element, Dim length) {
  return {DType::sequence, {std::move(length)}, true, {std::move(element)}};
}

TensorType optional_of(TensorType element) {
  return {DType::optional, {}, true, {std::move(element)}};
}

TensorType map_of(DType keys, DType values) {
  return {DType::map, {2}, true, {{keys, {unknown_dim()}}, {values, {unknown_dim()}}}};
}

TensorType join_elements(const TensorType& a, const TensorType& b) {
  if (a.dtype != b.dtype || a.elements.size() != b.elements.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("elements of one container must have one type, they are {} "
                                                         "and {}",
                                                         to_string(a), to_string(b)));
  if (!a.ranked || !b.ranked || a.shape.size() != b.shape.size()) return any_tensor(a.dtype);
  TensorType joined = a;
  for (size_t axis = 0; axis < a.shape.size(); ++axis)
    if (!(a.shape[axis] == b.shape[axis])) joined.shape[axis] = unknown_dim();
  for (size_t i = 0; i < a.elements.size(); ++i) joined.elements[i] = join_elements(a.elements[i], b.elements[i]);
  return joined;
}

bool accepts_element(const TensorType& wanted, const TensorType& given) {
  if (wanted.dtype != given.dtype || wanted.elements.size() != given.elements.size()) return false;
  if (wanted.ranked && (!given.ranked || wanted.shape.size() != given.shape.size())) return false;
  for (size_t axis = 0; axis < wanted.shape.size(); ++axis)
    if (!(wanted.shape[axis] == unknown_dim()) && !(wanted.shape[axis] == given.shape[axis])) return false;
  for (size_t i = 0; i < wanted.elements.size(); ++i)
    if (!accepts_element(wanted.elements[i], given.elements[i])) return false;
  return true;
}

std::string malformed(const TensorType& type) {
  return malformed(type, false, 0);
}
std::string malformed_element(const TensorType& type) {
  return malformed(type, true, 0);
}

void check_elements(const Tensor& tensor, const TensorType& type, const std::string& what) {
  switch (type.dtype) {
    case DType::sequence:
      for (int64_t i = 0; i < tensor.size(); ++i)
        check_element(tensor.element(i), type.elements.at(0), fmt::format("element {} of {}", i, what));
      break;
    case DType::optional:
      if (tensor.element(0).defined()) check_element(tensor.element(0), type.elements.at(0), what + "'s element");
      break;
    case DType::map:
      check_element(tensor.element(0), type.elements.at(0), "the keys of " + what);
      check_element(tensor.element(1), type.elements.at(1), "the values of " + what);
      if (tensor.element(0).dims() != tensor.element(1).dims())
        throw Error(ErrorCode::invalid_argument, fmt::format("{} has {} keys and {} values", what,
                                                             tensor.element(0).size(), tensor.element(1).size()));
      break;
    default:
      break;
  }
}

}  // namespace camshaft
