// The pattern of a regular expression as a tree.
#pragma once

#include <string_view>
#include <vector>

#include "base/text/regex.h"

namespace camshaft {

inline bool is_word_character(char32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

struct RegexNode {
  enum class Type : uint8_t { empty, set, assertion, sequence, choice, repeat } type = Type::empty;
  Regex::Set set;
  Regex::Assertion assertion = Regex::Assertion::begin_text;
  int least = 0, most = -1;  ///< of a repeat; most -1 is unbounded
  std::vector<RegexNode> parts;
};

/// Throws Error(invalid_argument) naming the place for what is malformed or not supported.
RegexNode parse_regex(std::string_view pattern);

}  // namespace camshaft
