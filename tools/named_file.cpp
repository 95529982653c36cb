#include "tools/named_file.h"

#include <fmt/format.h>

#include "camshaft/error.hpp"

namespace camshaft::tools {

std::pair<std::string, std::string> parse_named_file(const std::string& text, const char* option, const char* form) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: '{}' is not of the form {}", option, text, form));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace camshaft::tools
