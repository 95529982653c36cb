// PNG, through libpng.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "reference/pictures/picture.h"

namespace camshaft::ops {

namespace {

constexpr const char* png = "PNG";

// libpng reports errors by a jump over its callers' frames. Those between setjmp and libpng are the two functions below
// that return false; they hold nothing that has a destructor, all state is here.
struct PngReader {
  Bytes rest;
  char message[128] = "no memory";
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  int passes = 1;
  size_t encoded_row_bytes = 0;  // before the filters and the compression

  PngReader() = default;
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp what) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, what, sizeof(reader.message) - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp /*png*/, png_const_charp /*what*/) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) png_error(png, "it is cut off");
  std::memcpy(to, reader.rest.data(), count);
  reader.rest = reader.rest.subspan(count);
}

bool read_header(PngReader& reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_read_info(reader.png, reader.info);
  reader.width = png_get_image_width(reader.png, reader.info);
  reader.height = png_get_image_height(reader.png, reader.info);
  reader.encoded_row_bytes = png_get_rowbytes(reader.png, reader.info);
  const int color = png_get_color_type(reader.png, reader.info);
  if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader.png);
  png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(PngReader& reader, uint8_t* to, size_t row_bytes) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  for (int pass = 0; pass < reader.passes; ++pass)
    for (png_uint_32 y = 0; y < reader.height; ++y) png_read_row(reader.png, to + y * row_bytes, nullptr);
  png_read_end(reader.png, nullptr);  // the checksums of the pixels
  return true;
}

}  // namespace

Tensor decode_png(Bytes file) {
  PngReader reader;
  reader.rest = file;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) throw Error(ErrorCode::out_of_memory, "no memory is left to decode a PNG image");
  if (!read_header(reader)) fail_picture(png, "{}", reader.message);
  check_picture_size(png, reader.width, reader.height);
  // A byte of what deflate packs cannot stand for more than this many.
  constexpr size_t best_ratio = 1032;
  if (reader.encoded_row_bytes * reader.height / best_ratio > file.size())
    fail_picture(png, "{} bytes cannot hold its {} x {} pixels", file.size(), reader.width, reader.height);
  const size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  const int64_t channels = png_get_channels(reader.png, reader.info);
  if ((channels != 1 && channels != 3) || row_bytes != reader.width * static_cast<size_t>(channels))
    fail_picture(png, "its pixels have {} bytes a row", row_bytes);
  Tensor out = new_picture(png, reader.width, reader.height, channels);
  if (!read_rows(reader, out.as_mutable<uint8_t>(), row_bytes)) fail_picture(png, "{}", reader.message);
  return out;
}

}  // namespace camshaft::ops
