#include "server/core/base64.h"

#include "server/core/status.h"

namespace camshaft::server {

namespace {

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::string decode_base64(std::string_view text) {
  while (!text.empty() && (text.back() == '=' || text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t held = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    const int digit = base64_digit(c);
    if (digit < 0) throw ServerError(StatusCode::invalid_argument, "a file's content is no base64");
    held = held << 6 | static_cast<uint32_t>(digit);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 0xff);
  }
  if (bits >= 6) throw ServerError(StatusCode::invalid_argument, "a file's content in base64 is cut off");
  return bytes;
}

}  // namespace camshaft::server
