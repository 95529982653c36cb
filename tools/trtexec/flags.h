// The flags of trtexec, TensorRT's 8 to 10: which there are, and what became of each.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace camshaft::tools::trtexec {

/// What a flag does here.
enum class FlagState {
  works,
  without_effect,  ///< what it asks for is the case anyway, or has no meaning here
  refused,         ///< what it asks for is not there: a run with it fails
};

struct Flag {
  const char* name;
  const char* value;  ///< "N", "<file>", …; "[N]": it may be left out; null: it takes none
  FlagState state;
  const char* text;  ///< what it does, or why it has no effect or is refused
};

/// In the order of the help.
std::span<const Flag> all_flags();

/// The flags of a command line: texts by name, in the order in which they came where one comes several times. Throws
/// Error(invalid_argument), as trtexec words it, for flags that there are not, and for values that are missing or too
/// many.
using GivenFlags = std::map<std::string, std::vector<std::string>, std::less<>>;
GivenFlags parse_flags(std::span<const std::string> arguments);

}  // namespace camshaft::tools::trtexec
