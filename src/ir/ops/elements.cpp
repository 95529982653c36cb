#include "ir/ops/elements.h"

#include <fmt/format.h>

namespace camshaft::ops {

Tensor unpack_subbyte(const Tensor& tensor) {
  if (!is_packed(tensor.dtype())) return tensor;
  const int bits = bit_width(tensor.dtype()), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  Tensor out(DType::u8, tensor.dims());
  const auto* from = tensor.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  for (int64_t i = 0; i < tensor.size(); ++i)
    to[i] = static_cast<uint8_t>((from[i / in_a_byte] >> (i % in_a_byte * bits)) & mask);
  return out;
}

Tensor pack_subbyte(const Tensor& bytes, DType dtype) {
  if (!is_packed(dtype)) return bytes;
  const int bits = bit_width(dtype), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  Tensor out(dtype, bytes.dims());
  const auto* from = bytes.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  for (int64_t i = 0; i < bytes.size(); ++i)
    to[i / in_a_byte] |= static_cast<uint8_t>((from[i] & mask) << (i % in_a_byte * bits));
  return out;
}

Dims row_major_strides(const Dims& dims) {
  Dims strides(dims.size(), 1);
  // Wraps where another size is 0: such a tensor has no element to stride to, however large the rest.
  for (size_t i = dims.size(); i-- > 1;)
    strides[i - 1] = static_cast<int64_t>(static_cast<uint64_t>(strides[i]) * static_cast<uint64_t>(dims[i]));
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
