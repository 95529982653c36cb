#include "runtime/tensor_view.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft {

TensorView view_of(const Tensor& tensor) {
  TensorView view{tensor.dtype(), tensor.dims(), nullptr, 0};
  if (!is_container(tensor.dtype())) {
    view.data = tensor.data();
    view.bytes = tensor.bytes();
    return view;
  }
  view.elements.reserve(static_cast<size_t>(tensor.size()));
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (tensor.element(i).defined()) view.elements.push_back(view_of(tensor.element(i)));
  return view;
}

Tensor copy_of(const TensorView& view) {
  if (!is_container(view.dtype)) {
    const size_t needed = storage_bytes(view.dtype, element_count(view.dims));
    if (view.bytes < needed || (!view.data && needed > 0))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a tensor {}{} needs {} bytes, {} are given", to_string(view.dtype), to_string(view.dims),
                              needed, view.data ? view.bytes : 0));
    return Tensor(view.dtype, view.dims, {static_cast<const std::byte*>(view.data), needed}, nullptr).copy();
  }
  std::vector<Tensor> elements;
  for (const TensorView& element : view.elements) elements.push_back(copy_of(element));
  switch (view.dtype) {
    case DType::optional:
      if (elements.size() > 1)
        throw Error(ErrorCode::invalid_argument, fmt::format("an optional of {} elements", elements.size()));
      return elements.empty() ? Tensor::optional(Tensor()) : Tensor::optional(std::move(elements[0]));
    case DType::map:
      if (elements.size() != 2)
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("a map has two elements, keys and values; {} are given", elements.size()));
      return Tensor::map(std::move(elements[0]), std::move(elements[1]));
    default:
      return Tensor::sequence(std::move(elements));
  }
}

}  // namespace camshaft
