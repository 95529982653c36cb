#include "onnx/export/model_builder.h"

#include <algorithm>

#include "ir/container_type.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

void ModelBuilder::use(const Operator& op) {
  const bool is_default = op.domain.empty();
  int64_t& version = opsets_[op.domain];
  version = std::max({version, op.since, is_default ? least_operator_set : int64_t{1}});
}

void ModelBuilder::use(const TensorType& type) {
  // When moves, casts and quantisation got the type; convolutions, poolings and most functions took no bf16 before 22.
  int64_t since = 0;
  switch (type.dtype) {
    case DType::bf16:
      since = 22;
      break;
    case DType::f4e2m1:
      since = 23;
      break;
    case DType::f8e8m0:
      since = 24;
      break;
    case DType::i2:
    case DType::u2:
      since = 25;
      break;
    default:
      break;
  }
  opsets_[""] = std::max(opsets_[""], since);
  for (const TensorType& element : type.elements) use(element);
}

int64_t ModelBuilder::ir_version() const {
  return ir_version_of(opsets_.at(""));
}

int64_t ir_version_of(int64_t opset) {
  // https://github.com/onnx/onnx/blob/main/docs/Versioning.md: operator set 21 came with IR version 10.
  if (opset <= 22) return 10;
  if (opset <= 23) return 11;
  return opset <= 24 ? 12 : 13;
}

TensorProto ModelBuilder::tensor(std::string name, const Tensor& value) {
  TensorProto out;
  out.name = std::move(name);
  out.dims = value.dims();
  out.data_type = dtype_to_onnx(value.dtype());
  use(TensorType{value.dtype(), {}});
  if (value.dtype() == DType::string) {
    out.string_data.assign(value.as<std::string>(), value.as<std::string>() + value.size());
  } else {
    tensors_->push_back(value);
    out.raw_data = tensors_->back().span();
  }
  return out;
}

TypeProto type_proto(const TensorType& type) {
  TypeProto out;
  switch (type.dtype) {
    case DType::sequence:
    case DType::optional:
      out.kind = type.dtype == DType::sequence ? TypeProto::Kind::sequence : TypeProto::Kind::optional;
      out.element.push_back(type_proto(type.elements.at(0)));
      return out;
    case DType::map:
      out.kind = TypeProto::Kind::map;
      out.key_type = dtype_to_onnx(type.elements.at(0).dtype);
      out.element.push_back(type_proto(type.elements.at(1)));
      out.element[0].shape.reset();  // a value of a map is one element
      return out;
    default:
      break;
  }
  out.kind = TypeProto::Kind::tensor;
  out.elem_type = dtype_to_onnx(type.dtype);
  if (!type.ranked) return out;
  out.shape.emplace();
  for (const Dim& size : type.shape) {
    DimensionProto& d = out.shape->emplace_back();
    d.value = size.as_constant();
    const auto symbol = size == unknown_dim() ? std::nullopt : size.as_symbol();
    if (symbol && !symbol->starts_with('@') && is_valid_name(*symbol)) d.param = *symbol;
  }
  return out;
}

}  // namespace camshaft::onnx
