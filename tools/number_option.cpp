#include "tools/number_option.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>

#include "camshaft/error.hpp"

namespace camshaft::tools {

namespace {

constexpr int max_threads = 1024;
constexpr double max_seconds = 366 * 86400.0;

template <class T>
std::optional<T> parse(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

int64_t parse_whole(const std::string& text, const char* name, int64_t low, int64_t high, int64_t fallback) {
  if (text.empty()) return fallback;
  const auto value = parse<int64_t>(text);
  if (!value || *value < low || *value > high) {
    const std::string range =
        high == INT64_MAX ? fmt::format(", {} or more", low) : fmt::format(" from {} to {}", low, high);
    throw Error(ErrorCode::invalid_argument, fmt::format("{} must be a whole number{}, not '{}'", name, range, text));
  }
  return *value;
}

int parse_threads(const std::string& text) {
  return static_cast<int>(parse_whole(text, "threads", 1, max_threads, 0));
}

double parse_seconds(const std::string& text, const char* name, double fallback) {
  if (text.empty()) return fallback;
  const auto value = parse<double>(text);
  if (!value || !(*value >= 0) || *value > max_seconds)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} must be a number of seconds, not '{}'", name, text));
  return *value;
}

double parse_positive(const std::string& text, const char* name, double fallback) {
  if (text.empty()) return fallback;
  const auto value = parse<double>(text);
  if (!value || !(*value > 0) || !std::isfinite(*value))
    throw Error(ErrorCode::invalid_argument, fmt::format("{} must be a number above 0, not '{}'", name, text));
  return *value;
}

}  // namespace camshaft::tools
