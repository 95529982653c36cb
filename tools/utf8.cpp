#include "tools/utf8.h"

#include <cstdint>

namespace camshaft::tools {

namespace {

constexpr char32_t replacement = U'\uFFFD';

bool is_scalar(char32_t c) {
  return c < 0xd800 || (c > 0xdfff && c <= 0x10ffff);
}

}  // namespace

std::u32string from_utf8(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const size_t length = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    bool valid = length > 0 && i + length <= text.size();
    char32_t c = length == 1 ? first : first & (0x7f >> length);
    for (size_t k = 1; valid && k < length; ++k) {
      const auto next = static_cast<unsigned char>(text[i + k]);
      valid = (next & 0xc0) == 0x80;
      c = c << 6 | (next & 0x3f);
    }
    constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    valid = valid && c >= smallest[length] && is_scalar(c);
    out += valid ? c : replacement;
    i += valid ? length : 1;
  }
  return out;
}

}  // namespace camshaft::tools
