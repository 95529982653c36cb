// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

#include "camshaft/cancellation.hpp"

namespace camshaft::tools {

/// Where a program's streams go: files, which may be the same.
struct ChildStreams {
  std::string out, err;
};

/// Runs a program, found on the PATH, and returns its exit status, 128 and the signal's number where one ended it. The
/// first argument is the program. Throws Error(invalid_argument) where it cannot be started, ending in `way_out`, and
/// Error(cancelled), "cancelled while <doing>", having killed it.
int run_child(const std::vector<std::string>& arguments, const ChildStreams& streams, const Cancellation& cancellation,
              const char* doing, const std::string& way_out);

/// The last line of a file that is not empty; an empty text where there is none.
std::string last_line(const std::string& path);

}  // namespace camshaft::tools
