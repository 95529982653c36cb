#include "optimize/precision_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace camshaft {

PrecisionRule parse_precision_rule(std::string_view text) {
  const size_t colon = text.rfind(':');
  const std::string_view name = colon == std::string_view::npos ? "" : text.substr(colon + 1);
  const auto& names = EnumNames<LayerPrecision>::values;
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names) || colon == 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("'{}' asks no precision of a layer: give NAME:fp32, NAME:fp16, NAME:bf16, NAME:int8 or NAME:fp8, "
                    "where * in the name stands for any text",
                    text));
  return {std::string(text.substr(0, colon)), static_cast<LayerPrecision>(found - std::begin(names))};
}

// Where a `*` has taken too little, it takes one more character, and what follows is tried again.
bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::optional<LayerPrecision> PrecisionRules::of_node(const std::string& name) const {
  const PrecisionRule* found = nullptr;
  for (const PrecisionRule& rule : rules_) {
    const bool is_exact = rule.pattern == name;
    if (is_exact || ((!found || found->pattern != name) && matches(rule.pattern, name))) found = &rule;
  }
  return found ? std::optional(found->precision) : std::nullopt;
}

std::optional<LayerPrecision> PrecisionRules::of(const std::vector<std::string>& sources) const {
  std::optional<LayerPrecision> widest;
  for (const std::string& source : sources)
    if (const auto asked = of_node(source)) widest = widest ? std::min(*widest, *asked) : *asked;
  return widest;
}

}  // namespace camshaft
