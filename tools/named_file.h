// Files with a name, as options have them: NAME=FILE.
#pragma once

#include <string>
#include <utility>

namespace camshaft::tools {

/// {name, file}. Throws Error(invalid_argument), with the option's name and the form that it has, where one is missing.
std::pair<std::string, std::string> parse_named_file(const std::string& text, const char* option, const char* form);

}  // namespace camshaft::tools
