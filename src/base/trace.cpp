#include "base/trace.h"

#include <algorithm>
#include <cstdlib>

namespace camshaft {

bool is_traced(std::string_view what) {
  const char* variable = std::getenv("CAMSHAFT_TRACE");
  std::string_view words = variable ? variable : "";
  while (!words.empty()) {
    const size_t end = std::min(words.find(','), words.size());
    if (words.substr(0, end) == what) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace camshaft
