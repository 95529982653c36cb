// The reference evaluation of image_decoder.
#include "ir/ops/image_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/pieces.h"
#include "base/thread_pool.h"
#include "reference/pictures/picture.h"

namespace camshaft::ops {

namespace {

using namespace std::string_view_literals;

constexpr int64_t pixels_a_piece = 1 << 16;

bool starts_with(Bytes file, std::string_view magic, size_t at = 0) {
  return file.size() >= at + magic.size() &&
         std::equal(magic.begin(), magic.end(), file.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

[[noreturn]] void fail_format(const char* format) {
  throw Error(ErrorCode::unsupported, fmt::format("{} images are not supported: only BMP, JPEG, PNG, PNM and WebP are; "
                                                  "convert the image first",
                                                  format));
}

// Writes pixels of `to_channels` samples, made from those of `from_channels` by apply(from, to).
template <class Apply>
Tensor each_pixel(ThreadPool& pool, const Tensor& picture, int64_t to_channels, Apply&& apply) {
  const int64_t from_channels = picture.dims()[2], count = picture.size() / from_channels;
  Tensor out(DType::u8, {picture.dims()[0], picture.dims()[1], to_channels});
  const auto* from = picture.as<uint8_t>();
  auto* to = out.as_mutable<uint8_t>();
  for_pieces(pool, count, pixels_a_piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) apply(from + i * from_channels, to + i * to_channels);
  });
  return out;
}

Tensor in_format(ThreadPool& pool, Tensor picture, PixelFormat format) {
  const bool is_gray = picture.dims()[2] == 1;
  if (format == PixelFormat::grayscale) {
    if (is_gray) return picture;
    // 299, 587 and 114 thousandths in 16 bits.
    return each_pixel(pool, picture, 1, [](const uint8_t* from, uint8_t* to) {
      *to = static_cast<uint8_t>((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
    });
  }
  if (is_gray) return each_pixel(pool, picture, 3, [](const uint8_t* from, uint8_t* to) { std::fill_n(to, 3, *from); });
  if (format == PixelFormat::rgb) return picture;
  return each_pixel(pool, picture, 3, [](const uint8_t* from, uint8_t* to) { std::reverse_copy(from, from + 3, to); });
}

}  // namespace

Tensor decode_picture(Bytes file) {
  if (starts_with(file, "\xff\xd8\xff"sv)) return decode_jpeg(file);
  if (starts_with(file, "\x89PNG\r\n\x1a\n"sv)) return decode_png(file);
  if (starts_with(file, "RIFF"sv) && starts_with(file, "WEBP"sv, 8)) return decode_webp(file);
  if (starts_with(file, "BM"sv)) return decode_bmp(file);
  if (file.size() > 2 && file[0] == 'P' && file[1] >= '1' && file[1] <= '6') return decode_pnm(file);
  if (starts_with(file, "II*\0"sv) || starts_with(file, "MM\0*"sv)) fail_format("TIFF");
  if (starts_with(file, "\0\0\0\x0cjP  \r\n\x87\n"sv) || starts_with(file, "\xff\x4f\xff\x51"sv))
    fail_format("JPEG 2000");
  fail_rule("the {} bytes are no BMP, JPEG, PNG, PNM or WebP image: none of these starts with such bytes", file.size());
}

std::vector<Tensor> ImageDecoder::evaluate(const EvalContext& context) const {
  const Tensor& file = context.input(0);
  Tensor picture = decode_picture({file.as<uint8_t>(), file.bytes()});
  return {in_format(context.pool, std::move(picture), format)};
}

}  // namespace camshaft::ops
