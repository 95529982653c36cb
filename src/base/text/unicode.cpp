#include "base/text/unicode.h"

namespace camshaft {

namespace {

// Capitals [first, last] in steps have their small letter `distance` further. A step of 2 is for alternating pairs.
struct Range {
  char32_t first, last;
  int32_t distance;
  uint32_t step = 1;
};

// From Unicode's simple case mappings (UnicodeData.txt).
constexpr Range ranges[] = {
    {0x41, 0x5A, 32},        {0xC0, 0xD6, 32},       {0xD8, 0xDE, 32},     {0x100, 0x12E, 1, 2}, {0x132, 0x136, 1, 2},
    {0x139, 0x147, 1, 2},    {0x14A, 0x176, 1, 2},   {0x178, 0x178, -121}, {0x179, 0x17D, 1, 2}, {0x1CD, 0x1DB, 1, 2},
    {0x1DE, 0x1EE, 1, 2},    {0x1F8, 0x21E, 1, 2},   {0x222, 0x232, 1, 2}, {0x370, 0x372, 1, 2}, {0x386, 0x386, 38},
    {0x388, 0x38A, 37},      {0x38C, 0x38C, 64},     {0x38E, 0x38F, 63},   {0x391, 0x3A1, 32},   {0x3A3, 0x3AB, 32},
    {0x3D8, 0x3EE, 1, 2},    {0x400, 0x40F, 80},     {0x410, 0x42F, 32},   {0x460, 0x480, 1, 2}, {0x48A, 0x4BE, 1, 2},
    {0x4C0, 0x4C0, 15},      {0x4C1, 0x4CD, 1, 2},   {0x4D0, 0x52E, 1, 2}, {0x531, 0x556, 48},   {0x1E00, 0x1E94, 1, 2},
    {0x1E9E, 0x1E9E, -7615}, {0x1EA0, 0x1EFE, 1, 2}, {0x2160, 0x216F, 16}, {0x24B6, 0x24CF, 26}, {0xFF21, 0xFF3A, 32},
    {0x10400, 0x10427, 40},
};

}  // namespace

std::vector<char32_t> decode_utf8(std::string_view text) {
  std::vector<char32_t> out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i]);
    const size_t length = first < 0x80   ? 1
                          : first < 0xC2 ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    char32_t c = length == 1 ? first : first & (0x7FU >> length);
    bool is_valid = length > 0 && i + length <= text.size();
    for (size_t k = 1; is_valid && k < length; ++k) {
      const auto next = static_cast<uint8_t>(text[i + k]);
      is_valid = (next & 0xC0) == 0x80;
      c = c << 6 | (next & 0x3F);
    }
    constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    is_valid = is_valid && c >= smallest[length] && c < 0x110000 && (c < 0xD800 || c > 0xDFFF);
    out.push_back(is_valid ? c : broken_byte + first);
    i += is_valid ? length : 1;
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c >= broken_byte) {
    put(c - broken_byte);
  } else if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

char32_t to_lower(char32_t c) {
  if (c == 0x130) return 'i';  // the dotted capital has no partner of its own
  for (const Range& r : ranges)
    if (c >= r.first && c <= r.last && (c - r.first) % r.step == 0)
      return static_cast<char32_t>(static_cast<int32_t>(c) + r.distance);
  return c;
}

char32_t to_upper(char32_t c) {
  if (c == 0x131) return 'I';
  if (c == 0x3C2) return 0x3A3;  // final sigma
  if (c == 0xDF) return c;       // no single capital in common use
  for (const Range& r : ranges) {
    const auto capital = static_cast<char32_t>(static_cast<int32_t>(c) - r.distance);
    if (capital >= r.first && capital <= r.last && (capital - r.first) % r.step == 0) return capital;
  }
  return c;
}

}  // namespace camshaft
