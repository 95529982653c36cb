// UTF-8 and the case of letters, without a system locale.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft {

/// A byte that is no part of valid UTF-8 stands as this plus the byte, and is written back as it was.
constexpr char32_t broken_byte = 0x110000;

std::vector<char32_t> decode_utf8(std::string_view text);
void append_utf8(std::string& out, char32_t c);

/// Simple case mapping of one letter to one: Latin with its extensions, Greek, Cyrillic, Armenian, Georgian (not
/// mapped to its capitals), full-width forms. Other characters stay.
char32_t to_lower(char32_t c);
char32_t to_upper(char32_t c);

}  // namespace camshaft
