#include "onnx/export/names.h"

#include <fmt/format.h>

#include <cstdint>

namespace camshaft::onnx {

namespace {

/// The bytes of the UTF-8 character that begins at `at`; 0 where none does.
size_t character_bytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : uint8_t{0}; };
  const auto follows = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return first == 0 ? 0 : 1;  // a NUL ends the names of other software
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const uint8_t low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const uint8_t low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool is_valid_name(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const size_t bytes = character_bytes(name, at);
    if (bytes == 0) return false;
    at += bytes;
  }
  return !name.empty();
}

bool Names::take(const std::string& name) {
  return is_valid_name(name) && next_.emplace(name, 1).second;
}

std::string Names::unique(std::string_view base) {
  std::string name;
  for (size_t at = 0; at < base.size();) {
    const size_t bytes = character_bytes(base, at);
    name += bytes == 0 ? "_" : base.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  if (name.empty()) name = "value";
  if (take(name)) return name;
  int& next = next_[name];
  for (;;) {
    std::string numbered = fmt::format("{}_{}", name, next++);
    if (take(numbered)) return numbered;
  }
}

}  // namespace camshaft::onnx
