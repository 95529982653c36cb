#include "ops/elements.h"

#include <fmt/format.h>

namespace camshaft::ops {

namespace {

bool is_4bit(DType dtype) {
  return dtype != DType::string && bit_width(dtype) == 4;
}

}  // namespace

Tensor unpack_4bit(const Tensor& tensor) {
  if (!is_4bit(tensor.dtype())) return tensor;
  Tensor out(DType::u8, tensor.dims());
  const auto* from = tensor.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  for (int64_t i = 0; i < tensor.size(); ++i) to[i] = i % 2 ? from[i / 2] >> 4 : from[i / 2] & 15;
  return out;
}

Tensor pack_4bit(const Tensor& bytes, DType dtype) {
  if (!is_4bit(dtype)) return bytes;
  Tensor out(dtype, bytes.dims());
  const auto* from = bytes.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  for (int64_t i = 0; i < bytes.size(); ++i) to[i / 2] |= static_cast<uint8_t>((from[i] & 15) << (i % 2 * 4));
  return out;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

int64_t product(const Dims& dims, size_t begin, size_t end) {
  int64_t count = 1;
  for (size_t i = begin; i < end; ++i) count *= dims[i];
  return count;
}

int64_t checked_index(int64_t index, int64_t size, int64_t axis) {
  if (index < -size || index >= size)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("index {} is out of range for axis {} of size {}", index, axis, size));
  return index < 0 ? index + size : index;
}

}  // namespace camshaft::ops
