#include "compile/tactic.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft {

int64_t TacticParameters::operator[](std::string_view name) const {
  for (const auto& [known, number] : numbers_)
    if (known == name) return number;
  throw Error(ErrorCode::internal, fmt::format("a tactic has no parameter '{}', but: {}", name, str()));
}

std::string TacticParameters::str() const {
  std::string text;
  for (const auto& [name, number] : numbers_) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, number);
  return text;
}

}  // namespace camshaft
