#include "reference/elements.h"

namespace camshaft::ops {

Tensor unpack_subbyte(const Tensor& tensor) {
  if (!is_packed(tensor.dtype())) return tensor;
  const int bits = bit_width(tensor.dtype()), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  Tensor out(DType::u8, tensor.dims());
  const auto* from = tensor.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  PacedCancellation cancellation;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    cancellation.did(1);
    to[i] = static_cast<uint8_t>((from[i / in_a_byte] >> (i % in_a_byte * bits)) & mask);
  }
  return out;
}

Tensor pack_subbyte(const Tensor& bytes, DType dtype) {
  if (!is_packed(dtype)) return bytes;
  const int bits = bit_width(dtype), in_a_byte = 8 / bits, mask = (1 << bits) - 1;
  Tensor out(dtype, bytes.dims());
  const auto* from = bytes.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  PacedCancellation cancellation;
  for (int64_t i = 0; i < bytes.size(); ++i) {
    cancellation.did(1);
    to[i / in_a_byte] |= static_cast<uint8_t>((from[i] & mask) << (i % in_a_byte * bits));
  }
  return out;
}

}  // namespace camshaft::ops
