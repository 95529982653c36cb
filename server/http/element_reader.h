// Elements of tensors, from JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "camshaft/dtype.hpp"

namespace camshaft::server {

/// A value of JSON that is no list and no object.
struct JsonScalar {
  enum class Kind { null, boolean, negative, unsigned_number, real, text } kind = Kind::null;
  bool boolean = false;
  int64_t negative = 0;
  uint64_t number = 0;
  double real = 0;
  std::string_view text = {};  ///< of a text, and of a real as it was written
};

/// Appends an element to a tensor's memory. Throws ServerError(invalid_argument) for what the type does not hold: it
/// names the tensor.
void append_element(std::vector<std::byte>& data, DType dtype, const JsonScalar& value, const std::string& tensor);

}  // namespace camshaft::server
