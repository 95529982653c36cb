// Element types by their names in the protocol.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "camshaft/dtype.hpp"

namespace camshaft::server {

/// The protocol's name of an element type: "FP32", "INT64", "BOOL", "BYTES" for strings. Throws
/// ServerError(unsupported) for types that the protocol does not have.
std::string_view protocol_name(DType dtype);
/// The inverse. Throws ServerError(invalid_argument) that lists the names.
DType parse_protocol_type(std::string_view name);
/// The names of config.pbtxt: "TYPE_FP32", "TYPE_STRING".
std::string_view config_name(DType dtype);
DType parse_config_type(std::string_view name);

/// The number of elements of a shape. Throws ServerError(invalid_argument) for negative sizes and beyond 2^63 - 1.
int64_t element_count(std::span<const int64_t> shape);
/// "[1,3,224,224]", as the protocol's messages have it.
std::string shape_text(std::span<const int64_t> shape);

}  // namespace camshaft::server
