#include "quantize/calibration_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/text/name_list.h"
#include "quantize/tensorrt_cache.h"

namespace camshaft {

namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 2> format_names = {"json", "tensorrt"};
constexpr const char* version_key = "camshaft_calibration";
constexpr int version = 1;

bool is_range(const TensorRange& range) {
  return std::isfinite(range.min) && std::isfinite(range.max) && range.min <= range.max;
}

std::string quoted(const std::string& text, const char* what) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} '{}' is not UTF-8, which a calibration in json cannot hold", what, text));
  }
}

std::string json_text(const Calibration& calibration) {
  std::string text = fmt::format("{{\n \"{}\": {},\n \"method\": {},\n \"ranges\": {{", version_key, version,
                                 quoted(calibration.method, "the method"));
  const char* before = "\n";
  for (const auto& [name, range] : calibration.ranges) {
    text += fmt::format("{}  {}: [{}, {}]", before, quoted(name, "the tensor"), range.min, range.max);
    before = ",\n";
  }
  text += "\n }";
  if (!calibration.channels.empty()) text += ",\n \"channels\": {";
  before = "\n";
  for (const auto& [name, magnitudes] : calibration.channels) {
    text += fmt::format("{}  {}: [{}]", before, quoted(name, "the tensor"), fmt::join(magnitudes, ", "));
    before = ",\n";
  }
  if (!calibration.channels.empty()) text += "\n }";
  if (!calibration.noise.empty()) text += ",\n \"noise\": {";
  before = "\n";
  for (const auto& [name, noise] : calibration.noise) {
    text += fmt::format("{}  {}: {}", before, quoted(name, "the tensor"), noise);
    before = ",\n";
  }
  return text + (calibration.noise.empty() ? "\n}\n" : "\n }\n}\n");
}

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Calibration read() {
    const json content = parse();
    if (!content.is_object() || !content.contains(version_key))
      fail(1, fmt::format("it is no calibration: it has no \"{}\"", version_key));
    if (content[version_key] != version)
      fail_at(version_key,
              fmt::format("it is of version {}; this program reads {}", content[version_key].dump(), version));
    for (const auto& [key, value] : content.items())
      if (key != version_key && key != "method" && key != "ranges" && key != "channels" && key != "noise")
        fail_at(key, fmt::format("\"{}\" is unknown", key));
    if (!content.contains("method") || !content["method"].is_string()) fail_at("method", "\"method\" must be a text");
    if (!content.contains("ranges") || !content["ranges"].is_object())
      fail_at("ranges", "\"ranges\" must be an object of a [minimum, maximum] for each tensor");
    Calibration calibration{content["method"].get<std::string>(), {}};
    for (const auto& [name, value] : content["ranges"].items()) {
      const bool is_pair = value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number();
      const TensorRange range = is_pair ? TensorRange{value[0].get<float>(), value[1].get<float>()} : TensorRange{1, 0};
      if (!is_range(range))
        fail_at(name, fmt::format("the range of '{}' is {}, not a finite minimum and a maximum that is not below it",
                                  name, value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 100)));
      calibration.ranges.emplace(name, range);
    }
    if (content.contains("channels")) read_channels(content["channels"], calibration);
    if (content.contains("noise")) read_noise(content["noise"], calibration);
    return calibration;
  }

 private:
  void read_channels(const json& channels, Calibration& calibration) const {
    if (!channels.is_object()) fail_at("channels", "\"channels\" must be an object of an array for each tensor");
    for (const auto& [name, values] : channels.items()) {
      if (!calibration.ranges.contains(name)) fail_at(name, fmt::format("'{}' has channels and no range", name));
      std::vector<float>& magnitudes = calibration.channels[name];
      if (values.is_array())
        for (const json& value : values) magnitudes.push_back(value.is_number() ? value.get<float>() : -1);
      if (magnitudes.empty() ||
          std::any_of(magnitudes.begin(), magnitudes.end(), [](float m) { return !(std::isfinite(m) && m >= 0); }))
        fail_at(name, fmt::format("the channels of '{}' are not finite magnitudes", name));
    }
  }

  void read_noise(const json& tensors, Calibration& calibration) const {
    if (!tensors.is_object()) fail_at("noise", "\"noise\" must be an object of a number for each tensor");
    for (const auto& [name, value] : tensors.items()) {
      if (!calibration.ranges.contains(name)) fail_at(name, fmt::format("'{}' has noise and no range", name));
      const float noise = value.is_number() ? value.get<float>() : -1;
      if (!(noise >= 0 && noise <= 1))
        fail_at(name, fmt::format("the noise of '{}' is not a number from 0 to 1", name), true);
      calibration.noise.emplace(name, noise);
    }
  }

  json parse() {
    constexpr int deepest = 3;  // a range, in the ranges, in the object
    std::set<std::string> keys[deepest];
    const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
      if (depth >= deepest && (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start))
        fail(1, "it is no calibration: it is nested too deeply");
      if (event != json::parse_event_t::key) return true;
      const auto key = parsed.get<std::string>();
      if (!keys[depth - 1].insert(key).second) fail_at(key, fmt::format("'{}' is there twice", key), true);
      for (int deeper = depth; deeper < deepest; ++deeper) keys[deeper].clear();
      return true;
    };
    try {
      return json::parse(text_.begin(), text_.end(), check);
    } catch (const json::exception& error) {
      // "[json.exception.parse_error.101] parse error at line 3, column 7: …"
      const std::string what = error.what();
      const size_t line = what.find("line ");
      const size_t number = line == std::string::npos ? 1 : std::strtoull(what.c_str() + line + 5, nullptr, 10);
      const size_t id = what.find("] ");
      fail(number, what.substr(id == std::string::npos ? 0 : id + 2));
    }
  }

  /// The line where a key is, the last one of that text where `is_last`; 1 where it is spelled otherwise or missing.
  [[noreturn]] void fail_at(const std::string& key, const std::string& what, bool is_last = false) const {
    const std::string spelled = json(key).dump(-1, ' ', false, json::error_handler_t::replace);
    const size_t at = is_last ? text_.rfind(spelled) : text_.find(spelled);
    const auto end = at == std::string_view::npos ? text_.begin() : text_.begin() + static_cast<std::ptrdiff_t>(at);
    fail(1 + static_cast<size_t>(std::count(text_.begin(), end, '\n')), what);
  }
  [[noreturn]] void fail(size_t line, const std::string& what) const {
    constexpr size_t longest = 400;  // texts of a damaged file may be of any length
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}', line {}: {}; calibrate again, or mend the line", file_, line,
                            what.size() > longest ? what.substr(0, longest) + "…" : what));
  }

  std::string_view text_;
  const std::string& file_;
};

}  // namespace

std::string_view to_string(CalibrationFormat format) {
  return format_names[static_cast<size_t>(format)];
}

std::span<const std::string_view> calibration_format_names() {
  return format_names;
}

CalibrationFormat parse_calibration_format(const std::string& name) {
  for (size_t f = 0; f < format_names.size(); ++f)
    if (name == format_names[f]) return static_cast<CalibrationFormat>(f);
  throw Error(ErrorCode::invalid_argument, fmt::format("no format of calibrations is named '{}'; there are: {}", name,
                                                       fmt::join(format_names, ", ")));
}

std::string calibration_text(const Calibration& calibration, CalibrationFormat format) {
  for (const auto& [name, range] : calibration.ranges)
    if (!is_range(range))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("the tensor '{}' cannot have the range from {} to {}", name, range.min, range.max));
  return format == CalibrationFormat::json ? json_text(calibration) : tensorrt_cache_text(calibration);
}

Calibration parse_calibration(std::string_view text, const std::string& file) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";  // some editors write one
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  if (begins_like_tensorrt_cache(text)) return parse_tensorrt_cache(text, file);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{')
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("'{}', line 1: it is neither a calibration as 'camshaft calibrate' writes it nor a cache of "
                    "TensorRT's, which begins with 'TRT-'",
                    file));
  return JsonReader(text, file).read();
}

void write_calibration(const Calibration& calibration, const std::string& path, CalibrationFormat format) {
  const std::string text = calibration_text(calibration, format);
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

Calibration read_calibration(const std::string& path) {
  const auto file = MappedFile::open(path);
  return parse_calibration({reinterpret_cast<const char*>(file->data()), file->size()}, path);
}

std::vector<std::string> tensors_without_range(const Calibration& calibration, const std::vector<std::string>& tensors,
                                               const std::string& file) {
  std::vector<std::string> missing;
  for (const std::string& name : tensors)
    if (!calibration.ranges.contains(name)) missing.push_back(name);
  if (2 * missing.size() > tensors.size()) {
    std::vector<std::string> there;
    for (const auto& [name, range] : calibration.ranges) there.push_back(name);
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is of another model: of {} tensors {} have no range in it, as {}; it has ranges of {}. "
                    "Calibrate this model",
                    file, tensors.size(), missing.size(), name_list(missing),
                    there.empty() ? "none" : name_list(there)));
  }
  return missing;
}

}  // namespace camshaft
