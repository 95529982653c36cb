#include "compile/constants/layout_text.h"

#include <charconv>

namespace camshaft {

bool take_number(std::string_view& text, std::string_view before, int64_t most, int64_t& value) {
  if (!text.starts_with(before)) return false;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + before.size(), end, value);
  if (error != std::errc() || value < 0 || value > most) return false;
  text.remove_prefix(static_cast<size_t>(rest - text.data()));
  return true;
}

}  // namespace camshaft
