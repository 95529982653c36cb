#include "server/grpc/utf8.h"

#include <cstddef>
#include <cstdint>

namespace camshaft::server {

bool is_utf8(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size();) {
    const uint8_t first = at(i++);
    if (first < 0x80) continue;
    const int following = first >= 0xc2 && first <= 0xdf   ? 1
                          : (first & 0xf0) == 0xe0         ? 2
                          : first >= 0xf0 && first <= 0xf4 ? 3
                                                           : 0;
    if (following == 0 || text.size() - i < static_cast<size_t>(following)) return false;
    // The second byte's range rules out overlong forms, surrogates and what is too large.
    const uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (at(i) < low || at(i) > high) return false;
    for (int k = 1; k < following; ++k)
      if ((at(i + k) & 0xc0) != 0x80) return false;
    i += following;
  }
  return true;
}

}  // namespace camshaft::server
