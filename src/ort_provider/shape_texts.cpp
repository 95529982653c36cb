#include "ort_provider/shape_texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace camshaft::ort_provider {

namespace {

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<std::map<std::string, std::vector<int64_t>>> parse_shape_sets(const std::string& option,
                                                                          const std::string& text) {
  std::vector<std::map<std::string, std::vector<int64_t>>> sets;
  if (text.empty()) return sets;
  std::map<std::string, size_t> times;
  for (std::string_view part : split_at(text, ',')) {
    while (part.starts_with(' ')) part.remove_prefix(1);
    const size_t colon = part.rfind(':');
    std::vector<int64_t> dims;
    bool is_right = colon != std::string_view::npos && colon > 0;
    for (const std::string_view number :
         is_right ? split_at(part.substr(colon + 1), 'x') : std::vector<std::string_view>()) {
      int64_t& size = dims.emplace_back(0);
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
      is_right = is_right && error == std::errc() && end == number.data() + number.size() && size >= 0;
    }
    if (!is_right)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("the option '{}': '{}' is no shape; write NAME:SIZExSIZE, as in x:1x3x224x224", option, part));
    const std::string name(part.substr(0, colon));
    const size_t set = times[name]++;
    if (sets.size() <= set) sets.resize(set + 1);
    sets[set][name] = std::move(dims);
  }
  return sets;
}

std::vector<Profile> parse_profiles(const std::string& smallest, const std::string& optimum,
                                    const std::string& largest) {
  const auto min = parse_shape_sets("min-shapes", smallest), opt = parse_shape_sets("opt-shapes", optimum),
             max = parse_shape_sets("max-shapes", largest);
  const size_t count = std::max({min.size(), opt.size(), max.size()});
  for (const auto* sets : {&min, &opt, &max})
    if (!sets->empty() && sets->size() != count)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("min-shapes, opt-shapes and max-shapes have {}, {} and {} sets of shapes; give as many of "
                      "each that you use",
                      min.size(), opt.size(), max.size()));
  std::vector<Profile> profiles(count);
  for (size_t i = 0; i < count; ++i) {
    const auto find = [&](const auto& sets, const std::string& name) -> const std::vector<int64_t>* {
      if (sets.empty()) return nullptr;
      const auto it = sets[i].find(name);
      return it == sets[i].end() ? nullptr : &it->second;
    };
    for (const auto* sets : {&min, &opt, &max}) {
      if (sets->empty()) continue;
      for (const auto& [name, dims] : (*sets)[i]) {
        const auto *low = find(min, name), *usual = find(opt, name), *high = find(max, name);
        ShapeRange& range = profiles[i].inputs[name];
        range.opt = usual ? *usual : high ? *high : *low;
        range.min = low ? *low : range.opt;
        range.max = high ? *high : range.opt;
      }
    }
  }
  return profiles;
}

}  // namespace camshaft::ort_provider
