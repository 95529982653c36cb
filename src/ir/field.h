// The values that operator fields can hold, in a form that text and engine files can carry.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/reflect.h"
#include "ir/dim.h"

namespace camshaft {

using Shape = std::vector<Dim>;

/// One field. Enums, dtypes and scalar functions are carried by name.
using FieldValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                                std::vector<std::string>, Dim, Shape>;
using Fields = std::vector<std::pair<std::string, FieldValue>>;

/// "3", "0.5", "true", "\"text\"", "[1, 2]", "dim(batch + 1)", "shape(batch, 3)".
std::string to_string(const FieldValue& value);

/// How an enum with its own names is read back; other such enums add an overload beside their declaration.
inline void parse_enum(std::string_view text, DType& out) {
  out = parse_dtype(text);
}

namespace detail {

template <class T>
FieldValue to_field(const T& value) {
  if constexpr (NamedEnum<T>) {
    return std::string(EnumNames<T>::values[static_cast<size_t>(value)]);
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else {
    return value;
  }
}

/// Throws Error(invalid_argument) for the first field that is not known or stands twice.
void check_names(std::string_view type_name, const Fields& fields, const std::vector<std::string_view>& known);
[[noreturn]] void throw_bad_field(std::string_view name, const FieldValue& value, std::string_view expected);

template <class T>
void from_field(std::string_view name, const FieldValue& value, T& out) {
  if constexpr (std::is_enum_v<T>) {
    const auto* text = std::get_if<std::string>(&value);
    if (!text) throw_bad_field(name, value, "a name");
    if constexpr (NamedEnum<T>) {
      size_t i = 0;
      for (std::string_view candidate : EnumNames<T>::values) {
        if (candidate == *text) {
          out = static_cast<T>(i);
          return;
        }
        ++i;
      }
      throw_bad_field(name, value, "one of the known names");
    } else {
      parse_enum(*text, out);
    }
  } else if constexpr (std::is_same_v<T, bool>) {
    const auto* b = std::get_if<bool>(&value);
    if (!b) throw_bad_field(name, value, "true or false");
    out = *b;
  } else if constexpr (std::is_integral_v<T>) {
    const auto* i = std::get_if<int64_t>(&value);
    if (!i || !std::in_range<T>(*i)) throw_bad_field(name, value, "an integer in range");
    out = static_cast<T>(*i);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (const auto* i = std::get_if<int64_t>(&value)) {
      out = static_cast<T>(*i);
      return;
    }
    const auto* d = std::get_if<double>(&value);
    if (!d) throw_bad_field(name, value, "a number");
    out = static_cast<T>(*d);
  } else {
    if constexpr (requires { out.empty(); } && !std::is_same_v<T, std::string>) {
      // "[]" reads as an empty list of any type.
      const auto* empty = std::get_if<std::vector<int64_t>>(&value);
      if (empty && empty->empty()) {
        out.clear();
        return;
      }
    }
    // Whole numbers are also reals and dims, for text written by hand.
    if constexpr (std::is_same_v<T, Dim>) {
      if (const auto* i = std::get_if<int64_t>(&value)) {
        out = *i;
        return;
      }
    } else if constexpr (std::is_same_v<T, Shape> || std::is_same_v<T, std::vector<double>>) {
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
        out.assign(list->begin(), list->end());
        return;
      }
    }
    const auto* v = std::get_if<T>(&value);
    if (!v) throw_bad_field(name, value, "a value of another type");
    out = *v;
  }
}

}  // namespace detail

/// All fields of a reflected struct, in declaration order.
template <Reflected T>
Fields to_fields(const T& value) {
  Fields fields;
  T::reflect(value,
             [&](std::string_view name, const auto& field) { fields.emplace_back(name, detail::to_field(field)); });
  return fields;
}

/// The inverse. Fields that are absent keep their default; unknown or ill-typed ones throw Error(invalid_argument).
template <Reflected T>
T from_fields(std::string_view type_name, const Fields& fields) {
  T value;
  std::vector<std::string_view> known;
  T::reflect(value, [&](std::string_view name, auto& field) {
    known.push_back(name);
    for (const auto& [key, entry] : fields)
      if (key == name) detail::from_field(name, entry, field);
  });
  detail::check_names(type_name, fields, known);
  return value;
}

}  // namespace camshaft
