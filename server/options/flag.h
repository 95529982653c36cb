// One flag of the command line, and how values are read.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "server/options/serve_options.h"

namespace camshaft::server {

struct Flag {
  std::string group, name;
  std::string value;  ///< what stands for the value in the help; empty: there is none; "BOOL": it may be left out
  std::string help;
  std::function<void(ServeOptions&, const std::string&)> apply;
};

/// In the order of the help. `without_effect`: those of Triton's that are taken and do nothing, with the reason.
const std::vector<Flag>& flags();
struct IgnoredFlag {
  std::string name;
  bool has_value = true;
  std::string reason;
};
const std::vector<IgnoredFlag>& ignored_flags();

/// "true", "false", "1", "0", "on", "off", "yes", "no". Throws OptionError.
bool read_boolean(const std::string& flag, const std::string& text);
/// Throws OptionError for what is no whole number within the bounds, naming them.
int64_t read_integer(const std::string& flag, const std::string& text, int64_t least,
                     int64_t most = std::numeric_limits<int64_t>::max());
/// The two parts around the first `separator`. Throws OptionError that shows `form` where there is none.
std::pair<std::string, std::string> read_pair(const std::string& flag, const std::string& text, char separator,
                                              const std::string& form);

}  // namespace camshaft::server
