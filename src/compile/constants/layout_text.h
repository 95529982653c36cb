// The text of a packed layout, written and read back by one list of its numbers:
//
//   constexpr auto numbers = [](auto& layout, auto&& number) {
//     number("gemm k=", layout.k);
//     number(" n=", layout.n);
//   };
//   layout_text(numbers, layout)              // "gemm k=3 n=5"
//   read_layout_text(text, numbers, layout)
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

namespace camshaft {

template <class Numbers, class Layout>
std::string layout_text(const Numbers& numbers, const Layout& layout) {
  std::string text;
  numbers(layout, [&](std::string_view before, const auto& value) {
    text.append(before).append(std::to_string(static_cast<int64_t>(value)));
  });
  return text;
}

/// Takes `before` and a number that is not negative from the front of `text`; false where something else is there, or a
/// number above `most`.
bool take_number(std::string_view& text, std::string_view before, int64_t most, int64_t& value);

/// False when the text is of another layout, or has numbers that the fields cannot hold.
template <class Numbers, class Layout>
bool read_layout_text(std::string_view text, const Numbers& numbers, Layout& layout) {
  bool is_read = true;
  numbers(layout, [&]<class T>(std::string_view before, T& field) {
    int64_t value = 0;
    int64_t most = 0;
    if constexpr (std::is_enum_v<T>) {
      most = std::numeric_limits<std::underlying_type_t<T>>::max();
    } else {
      most = static_cast<int64_t>(std::numeric_limits<T>::max());
    }
    is_read = is_read && take_number(text, before, most, value);
    if (is_read) field = static_cast<T>(value);
  });
  return is_read && text.empty();
}

}  // namespace camshaft
