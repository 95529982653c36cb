// PBM, PGM and PPM, plain and binary.
#include <algorithm>

#include "reference/pictures/picture.h"

namespace camshaft::ops {

namespace {

constexpr const char* pnm = "PNM";

class PnmReader {
 public:
  explicit PnmReader(Bytes file) : file_(file) {}

  // A decimal number behind white space and comments.
  int64_t number(int64_t largest) {
    skip_space();
    const size_t begin = at_;
    int64_t value = 0;
    for (; at_ < file_.size() && file_[at_] >= '0' && file_[at_] <= '9'; ++at_) {
      value = value * 10 + (file_[at_] - '0');
      if (value > largest) fail_picture(pnm, "the number at byte {} is larger than {}", begin, largest);
    }
    if (at_ == begin) fail_picture(pnm, "a number is missing at byte {}", begin);
    return value;
  }

  // A digit 0 or 1, which the next may follow at once.
  bool bit() {
    skip_space();
    if (at_ == file_.size() || (file_[at_] != '0' && file_[at_] != '1'))
      fail_picture(pnm, "a digit 0 or 1 is missing at byte {}", at_);
    return file_[at_++] == '1';
  }

  // What lies behind the one white space that ends the header.
  Bytes samples(int64_t count) {
    if (at_ == file_.size() || !is_space(file_[at_])) fail_picture(pnm, "its header does not end at byte {}", at_);
    const Bytes rest = file_.subspan(at_ + 1);
    if (static_cast<int64_t>(rest.size()) < count)
      fail_picture(pnm, "it is cut off: {} bytes of pixels are needed, {} are there", count, rest.size());
    return rest;
  }

  int64_t bytes_left() const { return static_cast<int64_t>(file_.size() - at_); }

 private:
  static bool is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  void skip_space() {
    for (bool in_comment = false; at_ < file_.size(); ++at_) {
      const uint8_t c = file_[at_];
      if (in_comment) {
        in_comment = c != '\n' && c != '\r';
      } else if (c == '#') {
        in_comment = true;
      } else if (!is_space(c)) {
        return;
      }
    }
  }

  Bytes file_;
  size_t at_ = 2;  // behind "P6"
};

uint8_t to_8_bits(int64_t sample, int64_t white) {
  return static_cast<uint8_t>((std::min(sample, white) * 255 + white / 2) / white);
}

}  // namespace

Tensor decode_pnm(Bytes file) {
  const bool is_plain = file[1] <= '3';
  const int kind = (file[1] - '1') % 3;  // bits, gray, color
  const int64_t channels = kind == 2 ? 3 : 1;
  PnmReader reader(file);
  const int64_t width = reader.number(most_pixels), height = reader.number(most_pixels);
  const int64_t white = kind == 0 ? 1 : reader.number(65535);
  check_picture_size(pnm, width, height);
  if (white == 0) fail_picture(pnm, "its largest sample is 0");
  const int64_t count = width * height * channels;

  if (is_plain) {
    if (reader.bytes_left() < count)
      fail_picture(pnm, "{} bytes cannot hold its {} x {} pixels", file.size(), width, height);
    Tensor out = new_picture(pnm, width, height, channels);
    auto* to = out.as_mutable<uint8_t>();
    for (int64_t i = 0; i < count; ++i)
      to[i] = kind == 0 ? (reader.bit() ? 0 : 255) : to_8_bits(reader.number(65535), white);
    return out;
  }
  if (kind == 0) {
    const int64_t row_bytes = (width + 7) / 8;
    const Bytes samples = reader.samples(row_bytes * height);
    Tensor out = new_picture(pnm, width, height, channels);
    auto* to = out.as_mutable<uint8_t>();
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        to[y * width + x] = samples[static_cast<size_t>(y * row_bytes + x / 8)] >> (7 - x % 8) & 1 ? 0 : 255;
    return out;
  }
  const int64_t sample_bytes = white > 255 ? 2 : 1;
  const Bytes samples = reader.samples(count * sample_bytes);
  Tensor out = new_picture(pnm, width, height, channels);
  auto* to = out.as_mutable<uint8_t>();
  if (white == 255) {
    std::copy_n(samples.data(), count, to);
  } else {
    const uint8_t* from = samples.data();
    for (int64_t i = 0; i < count; ++i, from += sample_bytes)
      to[i] = to_8_bits(sample_bytes == 2 ? from[0] << 8 | from[1] : from[0], white);
  }
  return out;
}

}  // namespace camshaft::ops
