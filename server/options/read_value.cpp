#include <charconv>

#include "server/options/flag.h"

namespace camshaft::server {

bool read_boolean(const std::string& flag, const std::string& text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (lower == "true" || lower == "1" || lower == "on" || lower == "yes") return true;
  if (lower == "false" || lower == "0" || lower == "off" || lower == "no") return false;
  throw OptionError("--" + flag + " takes true or false, not '" + text + "'");
}

int64_t read_integer(const std::string& flag, const std::string& text, int64_t least, int64_t most) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= least && number <= most) return number;
  const std::string range = most == std::numeric_limits<int64_t>::max()
                                ? "of " + std::to_string(least) + " or more"
                                : "from " + std::to_string(least) + " to " + std::to_string(most);
  throw OptionError("--" + flag + " takes a whole number " + range + ", not '" + text + "'");
}

std::pair<std::string, std::string> read_pair(const std::string& flag, const std::string& text, char separator,
                                              const std::string& form) {
  const size_t at = text.find(separator);
  if (at == std::string::npos) throw OptionError("--" + flag + " is given as " + form + ", not '" + text + "'");
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace camshaft::server
