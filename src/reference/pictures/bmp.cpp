// BMP: palettes of 1, 4 and 8 bits (also run-length encoded), 16, 24 and 32 bits.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "reference/pictures/picture.h"

namespace camshaft::ops {

namespace {

constexpr const char* bmp = "BMP";

enum Compression : uint32_t { plain = 0, runs_8 = 1, runs_4 = 2, masks = 3, masks_and_alpha = 6 };

// Little-endian numbers; behind the end is an error.
class BmpReader {
 public:
  explicit BmpReader(Bytes file) : file_(file) {}
  int64_t size() const { return static_cast<int64_t>(file_.size()); }
  uint8_t u8(int64_t at) const {
    if (at < 0 || at >= size()) fail_picture(bmp, "it is cut off at byte {}", size());
    return file_[static_cast<size_t>(at)];
  }
  uint32_t u16(int64_t at) const { return u8(at) | static_cast<uint32_t>(u8(at + 1)) << 8; }
  uint32_t u32(int64_t at) const { return u16(at) | u16(at + 2) << 16; }
  const uint8_t* at(int64_t begin, int64_t count) const {
    if (begin < 0 || count < 0 || begin > size() || count > size() - begin)
      fail_picture(bmp, "it is cut off: {} bytes of pixels are needed behind byte {} of {}", count, begin, size());
    return file_.data() + begin;
  }

 private:
  Bytes file_;
};

using Color = std::array<uint8_t, 3>;  // red, green, blue

struct Header {
  int64_t width = 0;
  int64_t height = 0;
  bool is_top_down = false;
  int64_t bits = 0;  // of a pixel
  uint32_t compression = plain;
  int64_t pixels_at = 0;
  int64_t palette_at = 0;
  int64_t palette_entry_bytes = 4;
  int64_t palette_colors = 0;  // 0: as many as the bits of a pixel can name

  int64_t row_bytes() const { return (width * bits + 31) / 32 * 4; }
};

Header read_header(const BmpReader& file) {
  Header h;
  h.pixels_at = file.u32(10);
  const int64_t size = file.u32(14);
  if (size == 12) {
    h.width = file.u16(18);
    h.height = file.u16(20);
    h.bits = file.u16(24);
    h.palette_entry_bytes = 3;
  } else if (size >= 40) {
    h.width = static_cast<int32_t>(file.u32(18));
    const int64_t height = static_cast<int32_t>(file.u32(22));
    h.is_top_down = height < 0;
    h.height = h.is_top_down ? -height : height;
    h.bits = file.u16(28);
    h.compression = file.u32(30);
    h.palette_colors = file.u32(46);
  } else {
    fail_picture(bmp, "its header has {} bytes; 12, or 40 and more are known", size);
  }
  check_picture_size(bmp, h.width, h.height);
  h.palette_at = 14 + size;
  const bool fits =
      h.compression == plain ? h.bits == 1 || h.bits == 4 || h.bits == 8 || h.bits == 16 || h.bits == 24 || h.bits == 32
      : h.compression == runs_8 ? h.bits == 8 && !h.is_top_down
      : h.compression == runs_4
          ? h.bits == 4 && !h.is_top_down
          : (h.compression == masks || h.compression == masks_and_alpha) && (h.bits == 16 || h.bits == 32);
  if (!fits) fail_picture(bmp, "{} bits a pixel with compression {} are not possible", h.bits, h.compression);
  return h;
}

// Colors that the file has no room for stay out of the palette.
std::vector<Color> read_palette(const BmpReader& file, const Header& h) {
  const int64_t most = int64_t{1} << h.bits;
  const int64_t room = std::max<int64_t>(0, h.pixels_at - h.palette_at) / h.palette_entry_bytes;
  const int64_t count = std::min({h.palette_colors == 0 ? most : h.palette_colors, most, room});
  std::vector<Color> palette;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* bgr = file.at(h.palette_at + i * h.palette_entry_bytes, 3);
    palette.push_back({bgr[2], bgr[1], bgr[0]});
  }
  return palette;
}

Color color_of(const std::vector<Color>& palette, size_t index) {
  if (index >= palette.size()) fail_picture(bmp, "a pixel has color {} of a palette of {}", index, palette.size());
  return palette[index];
}

// The bits of a pixel that are one color.
struct Mask {
  uint32_t bits = 0;

  uint8_t sample(uint32_t pixel) const {
    if (bits == 0) return 0;
    const int shift = std::countr_zero(bits);
    return static_cast<uint8_t>(uint64_t{(pixel & bits) >> shift} * 255 / (bits >> shift));
  }
};

std::array<Mask, 3> read_masks(const BmpReader& file, const Header& h) {
  if (h.compression == plain) return {Mask{0x7C00}, Mask{0x3E0}, Mask{0x1F}};
  std::array<Mask, 3> out;
  for (int64_t i = 0; i < 3; ++i) out[static_cast<size_t>(i)].bits = file.u32(54 + i * 4);
  return out;
}

// Indices into the palette, row by row from the bottom; what is left out is 0.
std::vector<uint8_t> read_runs(const BmpReader& file, const Header& h) {
  std::vector<uint8_t> out(static_cast<size_t>(h.width * h.height));
  int64_t at = h.pixels_at, x = 0, y = 0;
  const auto put = [&](uint8_t index) {
    if (x >= h.width || y >= h.height) fail_picture(bmp, "a run leaves the image at byte {}", at);
    out[static_cast<size_t>(y * h.width + x++)] = index;
  };
  const auto nibble = [](uint8_t byte, int64_t i) { return static_cast<uint8_t>(i % 2 ? byte & 15 : byte >> 4); };
  const bool has_nibbles = h.bits == 4;
  for (;;) {
    const int64_t count = file.u8(at), value = file.u8(at + 1);
    at += 2;
    if (count > 0) {  // a run of one byte
      for (int64_t i = 0; i < count; ++i)
        put(has_nibbles ? nibble(static_cast<uint8_t>(value), i) : static_cast<uint8_t>(value));
    } else if (value == 0) {  // the end of a row
      x = 0;
      ++y;
    } else if (value == 1) {  // the end
      return out;
    } else if (value == 2) {  // a move
      x += file.u8(at);
      y += file.u8(at + 1);
      at += 2;
    } else {  // bytes as they are, an even number
      for (int64_t i = 0; i < value; ++i) put(has_nibbles ? nibble(file.u8(at + i / 2), i) : file.u8(at + i));
      at += ((has_nibbles ? (value + 1) / 2 : value) + 1) / 2 * 2;
    }
  }
}

}  // namespace

Tensor decode_bmp(Bytes bytes) {
  const BmpReader file(bytes);
  const Header h = read_header(file);
  // Calls write(row of the file, its samples in the picture).
  const auto with_rows = [&](auto&& write) {
    Tensor out = new_picture(bmp, h.width, h.height, 3);
    auto* to = out.as_mutable<uint8_t>();
    for (int64_t y = 0; y < h.height; ++y) write(y, to + (h.is_top_down ? y : h.height - 1 - y) * h.width * 3);
    return out;
  };
  const auto put = [](Color color, uint8_t*& to) { to = std::copy(color.begin(), color.end(), to); };
  if (h.compression == runs_8 || h.compression == runs_4) {
    const std::vector<Color> palette = read_palette(file, h);
    const std::vector<uint8_t> indices = read_runs(file, h);
    return with_rows([&](int64_t y, uint8_t* to) {
      for (int64_t x = 0; x < h.width; ++x) put(color_of(palette, indices[static_cast<size_t>(y * h.width + x)]), to);
    });
  }
  // Some writers leave the last row unpadded.
  const uint8_t* pixels = file.at(h.pixels_at, h.row_bytes() * (h.height - 1) + (h.width * h.bits + 7) / 8);
  if (h.bits <= 8) {
    const std::vector<Color> palette = read_palette(file, h);
    const int64_t a_byte = 8 / h.bits;
    const uint32_t largest = (1U << h.bits) - 1;
    return with_rows([&](int64_t y, uint8_t* to) {
      const uint8_t* row = pixels + y * h.row_bytes();
      for (int64_t x = 0; x < h.width; ++x)
        put(color_of(palette, row[x / a_byte] >> (8 - h.bits * (x % a_byte + 1)) & largest), to);
    });
  }
  if (h.bits == 24 || (h.bits == 32 && h.compression == plain)) {
    const int64_t pixel_bytes = h.bits / 8;
    return with_rows([&](int64_t y, uint8_t* to) {
      const uint8_t* from = pixels + y * h.row_bytes();
      for (int64_t x = 0; x < h.width; ++x, from += pixel_bytes) put({from[2], from[1], from[0]}, to);
    });
  }
  const std::array<Mask, 3> colors = read_masks(file, h);
  return with_rows([&](int64_t y, uint8_t* to) {
    const uint8_t* from = pixels + y * h.row_bytes();
    for (int64_t x = 0; x < h.width; ++x, from += h.bits / 8) {
      uint32_t pixel = from[0] | static_cast<uint32_t>(from[1]) << 8;
      if (h.bits == 32) pixel |= static_cast<uint32_t>(from[2]) << 16 | static_cast<uint32_t>(from[3]) << 24;
      put({colors[0].sample(pixel), colors[1].sample(pixel), colors[2].sample(pixel)}, to);
    }
  });
}

}  // namespace camshaft::ops
