#include "onnx/declared_type.h"

#include <fmt/format.h>

#include "base/error.h"
#include "ir/container_type.h"
#include "ir/limits.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

using Kind = TypeProto::Kind;

const TypeProto& inner_type(const TypeProto& type, const std::string& where) {
  if (type.element.empty()) throw Error(ErrorCode::invalid_model, where + " does not say what it holds");
  return type.element[0];
}

}  // namespace

TensorType element_type_from(const TypeProto& type, const std::string& where) {
  switch (type.kind) {
    case Kind::tensor: {
      const DType dtype = dtype_from_onnx(type.elem_type, where);
      // Writers that know nothing of the elements often leave an empty shape behind.
      if (!type.shape || type.shape->empty()) return any_tensor(dtype);
      check_axes(type.shape->size(), where);
      TensorType out{dtype, {}};
      for (const DimensionProto& d : *type.shape)
        out.shape.push_back(d.value && *d.value > 0 ? Dim(*d.value) : unknown_dim());
      return out;
    }
    case Kind::sequence:
      return sequence_of(element_type_from(inner_type(type, where), where), unknown_dim());
    case Kind::optional:
      return optional_of(element_type_from(inner_type(type, where), where));
    case Kind::map: {
      const TypeProto& values = inner_type(type, where);
      if (values.kind != Kind::tensor)
        throw Error(ErrorCode::unsupported, where + " maps to something else than tensors, which is not supported");
      return map_of(dtype_from_onnx(type.key_type, where), dtype_from_onnx(values.elem_type, where));
    }
    case Kind::none:
      throw Error(ErrorCode::invalid_model, where + " has no type");
    case Kind::sparse_tensor:
      break;
  }
  throw Error(ErrorCode::unsupported, where + " is a sparse tensor, which is supported for initializers alone");
}

void check_axes(size_t count, const std::string& where) {
  if (count > static_cast<size_t>(most_model_axes))
    throw Error(ErrorCode::invalid_model,
                fmt::format("{} has {} axes; at most {} can be", where, count, most_model_axes));
}

bool is_size_name(const std::string& param) {
  return !param.empty() && param != "?" && param != "-1" && param != "None" && !param.starts_with('@');
}

std::string symbol_base(const std::string& name) {
  return name.starts_with('@') ? "_" + name : name;
}

TensorType container_type_from(const TypeProto& type, const std::string& name, const std::string& where) {
  TensorType out = element_type_from(type, where);
  if (out.dtype == DType::sequence) out.shape = {Dim::symbol(symbol_base(name) + ".0")};
  return out;
}

}  // namespace camshaft::onnx
