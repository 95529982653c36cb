#include "base/text/name_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace camshaft {

std::string name_list(const std::vector<std::string>& names) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i]);
  return names.size() > most ? text + ", …" : text;
}

}  // namespace camshaft
