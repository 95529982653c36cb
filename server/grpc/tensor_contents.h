// The elements of a tensor one by one (InferTensorContents), as the bytes that models read.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "camshaft/dtype.hpp"

namespace camshaft::server {

/// Reads `contents`, messages that count as one, into row-major elements as NamedTensor has them. INT8 and INT16 come
/// in int_contents, UINT8 and UINT16 in uint_contents. Throws ServerError(invalid_argument), naming `input` and
/// `model`, for elements of another type than `dtype`, of several types, and out of the type's range.
std::string decode_tensor_contents(std::span<const std::string_view> contents, DType dtype, std::string_view input,
                                   std::string_view model);

}  // namespace camshaft::server
