// Strings between the protocol's form, each its length as u32 and then its bytes, and Camshaft's tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "camshaft/tensor.hpp"
#include "server/core/tensor.h"

namespace camshaft::server {

/// Sets the elements from `first` on to those of checked bytes; returns the place behind the last.
int64_t read_texts(std::span<const std::byte> bytes, Tensor& texts, int64_t first);
/// One element of these bytes. Throws ServerError(unsupported) for a text above 4 GiB.
Bytes write_text(std::string_view text);
/// Elements [first, first + count). Throws ServerError(unsupported) for a text above 4 GiB.
Bytes write_texts(const Tensor& texts, int64_t first, int64_t count);

}  // namespace camshaft::server
