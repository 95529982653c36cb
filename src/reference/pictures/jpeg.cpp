// JPEG, baseline and progressive, through libjpeg(-turbo): its default transform and "fancy" upsampling.
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <vector>

#include "reference/pictures/picture.h"

// Last: it needs size_t and FILE from the headers above.
#include <jpeglib.h>

namespace camshaft::ops {

namespace {

constexpr const char* jpeg = "JPEG";
constexpr int most_scans = 500;  // each costs a pass over the picture and can be a few bytes

// libjpeg reports errors by a jump over its callers' frames. Those between setjmp and libjpeg are the functions below
// that return false; they hold nothing that has a destructor, all state is here.
struct JpegReader {
  jpeg_decompress_struct state = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf escape = {};
  char message[JMSG_LENGTH_MAX] = {};

  JpegReader() = default;
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&state); }
};

JpegReader& reader_of(j_common_ptr state) {
  return *static_cast<JpegReader*>(state->client_data);
}

[[noreturn]] void fail(j_common_ptr state, const char* message) {
  JpegReader& reader = reader_of(state);
  std::strncpy(reader.message, message, sizeof(reader.message) - 1);
  std::longjmp(reader.escape, 1);
}

[[noreturn]] void on_error(j_common_ptr state) {
  JpegReader& reader = reader_of(state);
  reader.errors.format_message(state, reader.message);
  std::longjmp(reader.escape, 1);
}

void on_message(j_common_ptr /*state*/, int /*level*/) {}

void nothing(j_decompress_ptr /*state*/) {}

boolean on_end_of_data(j_decompress_ptr state) {
  fail(reinterpret_cast<j_common_ptr>(state), "it is cut off");
}

void skip_bytes(j_decompress_ptr state, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > state->src->bytes_in_buffer) on_end_of_data(state);
  state->src->next_input_byte += count;
  state->src->bytes_in_buffer -= static_cast<size_t>(count);
}

void on_progress(j_common_ptr state) {
  if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number > most_scans) fail(state, "it has too many scans");
}

bool read_header(JpegReader& reader, const uint8_t* data, size_t size) {
  jpeg_decompress_struct& state = reader.state;
  state.err = jpeg_std_error(&reader.errors);
  state.client_data = &reader;
  reader.errors.error_exit = on_error;
  reader.errors.emit_message = on_message;
  if (setjmp(reader.escape)) return false;
  jpeg_create_decompress(&state);
  reader.source.next_input_byte = data;
  reader.source.bytes_in_buffer = size;
  reader.source.init_source = nothing;
  reader.source.fill_input_buffer = on_end_of_data;
  reader.source.skip_input_data = skip_bytes;
  reader.source.resync_to_restart = jpeg_resync_to_restart;
  reader.source.term_source = nothing;
  state.src = &reader.source;
  reader.progress.progress_monitor = on_progress;
  state.progress = &reader.progress;
  jpeg_read_header(&state, TRUE);
  switch (state.jpeg_color_space) {
    case JCS_GRAYSCALE:
      state.out_color_space = JCS_GRAYSCALE;
      break;
    case JCS_RGB:
    case JCS_YCbCr:
      state.out_color_space = JCS_RGB;
      break;
    case JCS_CMYK:
    case JCS_YCCK:
      state.out_color_space = JCS_CMYK;
      break;
    default:
      fail(reinterpret_cast<j_common_ptr>(&state), "its color space is unknown");
  }
  return true;
}

// Red, green and blue of cyan, magenta, yellow and black, which are stored as 255 minus the ink when Adobe's marker is
// there.
void convert_inks(const uint8_t* inks, uint8_t* rgb, int64_t count, bool is_inverted) {
  const int flip = is_inverted ? 0 : 0xFF;
  for (int64_t i = 0; i < count; ++i, inks += 4, rgb += 3) {
    const int light = inks[3] ^ flip;
    for (int k = 0; k < 3; ++k) rgb[k] = static_cast<uint8_t>(((inks[k] ^ flip) * light + 127) / 255);
  }
}

// `row` has space for a row of inks and may be null when the picture is not made of inks.
bool read_rows(JpegReader& reader, uint8_t* to, size_t row_bytes, uint8_t* row) {
  jpeg_decompress_struct& state = reader.state;
  if (setjmp(reader.escape)) return false;
  jpeg_start_decompress(&state);
  while (state.output_scanline < state.output_height) {
    uint8_t* out = to + state.output_scanline * row_bytes;
    JSAMPROW line = row ? row : out;
    jpeg_read_scanlines(&state, &line, 1);
    if (row) convert_inks(row, out, state.output_width, state.saw_Adobe_marker);
  }
  return true;
}

}  // namespace

Tensor decode_jpeg(Bytes file) {
  JpegReader reader;
  if (!read_header(reader, file.data(), file.size())) fail_picture(jpeg, "{}", reader.message);
  const jpeg_decompress_struct& state = reader.state;
  const int64_t width = state.image_width, height = state.image_height;
  const int64_t channels = state.out_color_space == JCS_GRAYSCALE ? 1 : 3;
  Tensor out = new_picture(jpeg, width, height, channels);
  std::vector<uint8_t> row;
  if (state.out_color_space == JCS_CMYK) row.resize(static_cast<size_t>(width) * 4);
  if (!read_rows(reader, out.as_mutable<uint8_t>(), static_cast<size_t>(width * channels),
                 row.empty() ? nullptr : row.data()))
    fail_picture(jpeg, "{}", reader.message);
  return out;
}

}  // namespace camshaft::ops
