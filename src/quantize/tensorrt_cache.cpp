#include "quantize/tensorrt_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/error.h"

namespace camshaft {

namespace {

constexpr std::string_view header = "TRT-";
constexpr size_t longest_quoted = 100;  // of a damaged file, in a message
constexpr float steps = 127;            // of a symmetric range of 8 bits, on each side

/// TensorRT's calibrators, and the methods of the same kind.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> calibrators = {{
    {"EntropyCalibration2", "entropy"},
    {"EntropyCalibration", "entropy"},
    {"MinMaxCalibration", "minmax"},
    {"LegacyCalibration", "percentile"},
}};

class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  /// False at the end of the text.
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number_;
    return true;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}', line {}: {}; calibrate again, or mend the line", file_, number_, what));
  }

 private:
  std::string_view rest_;
  const std::string& file_;
  int64_t number_ = 0;
};

std::string method_of(const Lines& lines, std::string_view line) {
  const size_t dash = line.find('-', header.size());
  const std::string_view version = line.substr(header.size(), dash - header.size());
  const bool has_version = dash != std::string_view::npos && !version.empty() &&
                           std::all_of(version.begin(), version.end(), [](char c) { return c >= '0' && c <= '9'; });
  const std::string_view calibrator = has_version ? line.substr(dash + 1) : "";
  const bool is_name = std::all_of(calibrator.begin(), calibrator.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  });
  if (calibrator.empty() || !is_name)
    lines.fail(fmt::format("'{}' is no first line of a calibration cache, as 'TRT-8601-EntropyCalibration2' is",
                           line.substr(0, longest_quoted)));
  for (const auto& [name, method] : calibrators)
    if (calibrator == name) return std::string(method);
  return std::string(calibrator);
}

float scale_of(const Lines& lines, std::string_view name, std::string_view digits) {
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
  if (digits.empty() || digits.size() > 8 || error != std::errc() || end != digits.data() + digits.size())
    lines.fail(fmt::format("the scale of '{}' is '{}', not an f32 in hexadecimal digits",
                           name.substr(0, longest_quoted), digits.substr(0, longest_quoted)));
  const auto scale = std::bit_cast<float>(bits);
  if (!std::isfinite(scale * steps) || std::signbit(scale))
    lines.fail(fmt::format("the scale of '{}' is {}; only finite numbers from 0 on are scales",
                           name.substr(0, longest_quoted), scale));
  return scale;
}

}  // namespace

bool begins_like_tensorrt_cache(std::string_view text) {
  return text.starts_with(header);
}

Calibration parse_tensorrt_cache(std::string_view text, const std::string& file) {
  Lines lines(text, file);
  std::string_view line;
  lines.next(line);
  Calibration calibration;
  calibration.method = method_of(lines, line);
  while (lines.next(line)) {
    if (line.empty()) continue;
    constexpr std::string_view separator = ": ";
    const size_t at = line.rfind(separator);
    if (at == std::string_view::npos || at == 0)
      lines.fail(
          fmt::format("'{}' is no tensor's name, a colon, a space and its scale", line.substr(0, longest_quoted)));
    const std::string name(line.substr(0, at));
    const float largest = scale_of(lines, name, line.substr(at + separator.size())) * steps;
    if (!calibration.ranges.try_emplace(name, TensorRange{-largest, largest}).second)
      lines.fail(fmt::format("'{}' has a scale already", name.substr(0, longest_quoted)));
  }
  return calibration;
}

std::string tensorrt_cache_text(const Calibration& calibration) {
  const auto* const found = std::find_if(calibrators.begin(), calibrators.end(),
                                         [&](const auto& item) { return item.second == calibration.method; });
  // Whatever else chose them, most who read caches ask for this one.
  const std::string_view calibrator = found == calibrators.end() ? calibrators[0].first : found->first;
  std::string text = fmt::format("{}8601-{}\n", header, calibrator);
  for (const auto& [name, range] : calibration.ranges) {
    if (name.empty() || name.find_first_of("\r\n") != std::string::npos)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("a calibration cache of TensorRT cannot hold the tensor '{}', whose name is empty or has "
                              "line ends; write the ranges as json",
                              name));
    const float scale = std::max(std::fabs(range.min), std::fabs(range.max)) / steps;
    text += fmt::format("{}: {:x}\n", name, std::bit_cast<uint32_t>(scale));
  }
  return text;
}

}  // namespace camshaft
