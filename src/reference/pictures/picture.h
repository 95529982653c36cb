// What the decoders of the picture formats share. Internal to the reference.
#pragma once

#include <cstdint>
#include <span>

#include "ir/ops/shape_rules.h"
#include "ir/tensor.h"

namespace camshaft::ops {

using Bytes = std::span<const uint8_t>;

/// Throws Error(invalid_argument): `format` is the name of the picture's format.
template <class... Args>
[[noreturn]] void fail_picture(const char* format, fmt::format_string<Args...> what, Args&&... args) {
  fail_rule("the {} image cannot be decoded: {}", format, fmt::format(what, std::forward<Args>(args)...));
}

/// A few bytes can claim a picture of any size: larger ones are not believed.
constexpr int64_t most_pixels = int64_t{1} << 28;

/// Throws Error(invalid_argument) unless there are pixels, and no more than `most_pixels`.
inline void check_picture_size(const char* format, int64_t width, int64_t height) {
  if (width <= 0 || height <= 0 || width > most_pixels / height)
    fail_picture(format, "it claims {} x {} pixels; 1 to {} pixels are possible", width, height, most_pixels);
}

/// Zeros, u8 [height, width, channels].
inline Tensor new_picture(const char* format, int64_t width, int64_t height, int64_t channels) {
  check_picture_size(format, width, height);
  return {DType::u8, {height, width, channels}};
}

// Decoders of one format each: u8 [height, width, 3] in the order red, green, blue, or u8 [height, width, 1] of gray.
// Errors: invalid_argument, naming what is wrong with the bytes; out_of_memory.
Tensor decode_bmp(Bytes file);
Tensor decode_jpeg(Bytes file);
Tensor decode_png(Bytes file);
Tensor decode_pnm(Bytes file);
Tensor decode_webp(Bytes file);

/// The same of any of these formats, told apart by their first bytes. Also throws Error(unsupported) for JPEG 2000 and
/// TIFF.
Tensor decode_picture(Bytes file);

}  // namespace camshaft::ops
