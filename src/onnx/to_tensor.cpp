#include "onnx/to_tensor.h"

#include <algorithm>
#include <cstdint>

namespace camshaft::onnx {

Tensor to_tensor(const TensorData& data) {
  if (data.dtype == DType::string) return Tensor::of(data.dtype, data.dims, data.strings);
  const auto alignment = static_cast<size_t>(std::max(bit_width(data.dtype) / 8, 1));
  if (reinterpret_cast<uintptr_t>(data.bytes.data()) % alignment == 0)
    return {data.dtype, data.dims, data.bytes, data.owner};
  Tensor copy = Tensor::uncleared(data.dtype, data.dims);
  std::copy(data.bytes.begin(), data.bytes.end(), copy.mutable_data());
  return copy;
}

}  // namespace camshaft::onnx
