#include "onnx/quote.h"

#include <fmt/format.h>

#include <iterator>

namespace camshaft::onnx {

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 80;
  std::string out = "'";
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    else
      out += c;
  }
  out += text.size() > kLongest ? "…'" : "'";
  return out;
}

}  // namespace camshaft::onnx
