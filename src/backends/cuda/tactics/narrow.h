// Sizes as kernels take them.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace camshaft::cuda {

/// Most elements of one launch: kernels count them in 32 bits.
constexpr int64_t most_elements = int64_t{1} << 31;

/// A size or a number of something in the 32 bits that kernels count it in, with room for the sums that they form.
/// Throws Error(unsupported) that names `what` for 2^31 and more.
template <std::integral T>
uint32_t narrow(T value, const char* what = "a size") {
  if (std::cmp_less(value, 0) || std::cmp_greater_equal(value, most_elements))
    throw Error(ErrorCode::unsupported,
                fmt::format("{} of {} is more than GPU kernels count; split the batch", what, value));
  return static_cast<uint32_t>(value);
}

}  // namespace camshaft::cuda
