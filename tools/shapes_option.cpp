#include "tools/shapes_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "camshaft/error.hpp"

namespace camshaft::tools {

namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

void add_shapes(const std::string& text, const std::string& option, NamedShapes& shapes) {
  for (const std::string_view part : split(text, ',')) {
    const auto refuse = [&](const std::string& why) -> Error {
      return {ErrorCode::invalid_argument,
              fmt::format("{}: '{}' {}; write NAME:SIZExSIZE, as in x:1x3x224x224", option, part, why)};
    };
    const size_t colon = part.rfind(':');
    if (colon == std::string_view::npos || colon == 0) throw refuse("has no name and colon before the sizes");
    std::vector<int64_t> dims;
    for (const std::string_view number : split(part.substr(colon + 1), 'x')) {
      int64_t size = 0;
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
      if (number.empty()) throw refuse("lacks a size");
      if (error != std::errc() || end != number.data() + number.size() || size < 0)
        throw refuse(fmt::format("has the size '{}', which is not a number from 0 to 2^63", number));
      dims.push_back(size);
    }
    const std::string name(part.substr(0, colon));
    if (!shapes.emplace(name, std::move(dims)).second)
      throw Error(ErrorCode::invalid_argument, fmt::format("{} names input '{}' twice", option, name));
  }
}

}  // namespace

NamedShapes parse_shapes(const std::string& text, const std::string& option) {
  return parse_shapes(std::vector<std::string>{text}, option);
}

NamedShapes parse_shapes(const std::vector<std::string>& texts, const std::string& option) {
  NamedShapes shapes;
  for (const std::string& text : texts) add_shapes(text, option, shapes);
  return shapes;
}

std::vector<Profile> parse_profiles(const ProfileTexts& texts) {
  std::vector<Profile> profiles;
  const size_t count = std::max({texts.min.size(), texts.opt.size(), texts.max.size()});
  for (const auto* list : {&texts.min, &texts.opt, &texts.max})
    if (!list->empty() && list->size() != count)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--min-shapes, --opt-shapes and --max-shapes are given {}, {} and {} times; for several "
                              "profiles give each of those you use once a profile",
                              texts.min.size(), texts.opt.size(), texts.max.size()));
  for (size_t i = 0; i < count; ++i) {
    const auto shapes = [&](const std::vector<std::string>& list, const char* option) {
      return list.empty() ? NamedShapes() : parse_shapes(list[i], option);
    };
    const NamedShapes min = shapes(texts.min, "--min-shapes"), opt = shapes(texts.opt, "--opt-shapes"),
                      max = shapes(texts.max, "--max-shapes");
    Profile profile;
    for (const NamedShapes* given : {&min, &opt, &max})
      for (const auto& [name, dims] : *given) profile.inputs[name];
    for (auto& [name, range] : profile.inputs) {
      const auto find = [&n = name](const NamedShapes& named) { return named.count(n) ? &named.at(n) : nullptr; };
      const auto *low = find(min), *usual = find(opt), *high = find(max);
      if (usual) {
        range.opt = *usual;
      } else if (high) {
        range.opt = *high;
      } else if (low) {
        range.opt = *low;
      }
      range.min = low ? *low : range.opt;
      range.max = high ? *high : range.opt;
    }
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

Profile fixed_profile(const NamedShapes& shapes) {
  Profile profile;
  for (const auto& [name, dims] : shapes) profile.inputs[name] = {dims, dims, dims};
  return profile;
}

}  // namespace camshaft::tools
