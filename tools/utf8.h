// NumPy keeps strings in UTF-32, tensors in UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace camshaft::tools {

/// Malformed bytes become U+FFFD each.
std::u32string from_utf8(std::string_view text);

}  // namespace camshaft::tools
