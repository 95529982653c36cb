#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "runtime/weight_streaming.h"

namespace camshaft {

namespace {

[[noreturn]] void refuse_budget(const std::string& text) {
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("the weight budget cannot be '{}'; give whole bytes (1500000000, 1.5GB, 800MiB), a part of the "
                  "weights (40%), auto, or none",
                  text));
}

constexpr std::pair<std::string_view, double> units[] = {
    {"", 1},       {"B", 1},      {"KB", 1e3},   {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"K", 0x1p10},
    {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};

}  // namespace

WeightBudget::WeightBudget(const std::string& text) {
  if (text.empty() || text == "none") return;
  if (text == "auto") {
    is_automatic_ = true;
    return;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) refuse_budget(text);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  if (unit == "%") {
    if (number > 100) refuse_budget(text);
    fraction_ = number / 100;
    return;
  }
  // 0.4 is meant as a part, and would be no bytes at all.
  if ((unit.empty() || unit == "B") && number != std::floor(number)) refuse_budget(text);
  for (const auto& [name, factor] : units)
    if (unit == name && number * factor < 0x1p62) bytes_ = static_cast<int64_t>(number * factor);
  if (!bytes_) refuse_budget(text);
}

int64_t WeightBudget::bytes(int64_t weight_bytes, int64_t automatic) const {
  if (is_automatic_) return automatic;
  if (fraction_) return static_cast<int64_t>(std::ceil(*fraction_ * static_cast<double>(weight_bytes)));
  return bytes_.value_or(-1);
}

}  // namespace camshaft
