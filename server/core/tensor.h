// Tensors of requests and responses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "camshaft/tensor.hpp"

namespace camshaft::server {

/// Memory that stays as long as a copy of `owner`: a body that came in, a region of shared memory, a slice of a batch's
/// outputs. Null for `owner`: it outlives the request.
struct Bytes {
  std::span<const std::byte> span;
  std::shared_ptr<const void> owner;
  /// Where the memory is: on a GPU where a client shares memory of one, which the host cannot read (client_memory.h).
  Device device = {};
};

/// A tensor of a request or a response: row-major little-endian elements, booleans one byte each. Of strings
/// ("BYTES") each element is its length as u32 and then its bytes.
struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  Bytes data;
};

}  // namespace camshaft::server
