#include "ir/field.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text_internal.h"

namespace camshaft {

namespace {

using text_detail::quote;

// Shortest text that reads back to the same number and cannot be taken for an integer.
std::string number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

template <class List, class Print>
std::string list(const List& items, const char* open, const char* close, Print print) {
  std::string out = open;
  for (const auto& item : items) {
    if (out.size() > std::string_view(open).size()) out += ", ";
    out += print(item);
  }
  return out + close;
}

struct Printer {
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const std::vector<int64_t>& v) const {
    return list(v, "[", "]", [](int64_t x) { return std::to_string(x); });
  }
  std::string operator()(const std::vector<double>& v) const { return list(v, "[", "]", number); }
  std::string operator()(const std::vector<std::string>& v) const { return list(v, "[", "]", quote); }
  std::string operator()(const Dim& v) const { return "dim(" + v.str() + ")"; }
  std::string operator()(const Shape& v) const {
    return list(v, "shape(", ")", [](const Dim& d) { return d.str(); });
  }
};

}  // namespace

std::string to_string(const FieldValue& value) {
  return std::visit(Printer{}, value);
}

namespace detail {

void check_names(std::string_view type_name, const Fields& fields, const std::vector<std::string_view>& known) {
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    if (std::find(known.begin(), known.end(), field->first) == known.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}' has no field '{}'; it has {}", type_name, field->first,
                              known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    if (std::any_of(fields.begin(), field, [&](const auto& other) { return other.first == field->first; }))
      throw Error(ErrorCode::invalid_argument, fmt::format("field '{}' of '{}' stands twice", field->first, type_name));
  }
}

void throw_bad_field(std::string_view name, const FieldValue& value, std::string_view expected) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("field '{}' is {}: expected {}", name, to_string(value), expected));
}

}  // namespace detail
}  // namespace camshaft
