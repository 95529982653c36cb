// Reading an object of JSON field by field.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "camshaft/error.hpp"

namespace camshaft::llm {

/// Fields that are left out or null leave the value as it is. Throws Error(invalid_argument), naming the field.
class JsonFields {
 public:
  /// `what`: the object's name in messages.
  JsonFields(std::string_view text, std::string what) : what_(std::move(what)) {
    json_ = nlohmann::json::parse(text, nullptr, false);
    if (!json_.is_object()) throw Error(ErrorCode::invalid_argument, what_ + ": not an object of JSON");
  }

  template <class Use>
  void take(const char* name, const Use& use) {
    known_.insert(name);
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return;
    try {
      use(*found);
    } catch (const nlohmann::json::exception&) {
      throw Error(ErrorCode::invalid_argument,
                  what_ + ": " + name + " is " + found->dump() + ": its parts are of other types");
    } catch (const std::exception& error) {
      throw Error(ErrorCode::invalid_argument, what_ + ": " + name + " is " + found->dump() + ": " + error.what());
    }
  }
  template <class T>
  void read(const char* name, T& value) {
    take(name, [&](const nlohmann::json& field) { value = get<T>(field); });
  }
  template <class T>
  void read(const char* name, std::optional<T>& value) {
    take(name, [&](const nlohmann::json& field) { value = get<T>(field); });
  }
  /// The same where null is none.
  template <class T>
  void read_or_null(const char* name, std::optional<T>& value) {
    const auto found = json_.find(name);
    if (found != json_.end() && found->is_null()) value.reset();
    read(name, value);
  }
  /// Throws for fields that nobody asked for.
  void finish() const {
    for (const auto& [name, value] : json_.items())
      if (!known_.contains(name)) throw Error(ErrorCode::invalid_argument, what_ + ": there is no " + name);
  }

 private:
  template <class T>
  struct ListOf : std::false_type {};
  template <class T>
  struct ListOf<std::vector<T>> : std::true_type {
    using Element = T;
  };

 public:
  /// Numbers that would be rounded or wrap are refused, in lists too.
  template <class T>
  static T get(const nlohmann::json& field) {
    if constexpr (ListOf<T>::value) {
      if (!field.is_array()) throw std::runtime_error("a list is needed");
      T list;
      for (const nlohmann::json& element : field) list.push_back(get<typename ListOf<T>::Element>(element));
      return list;
    }
    // nlohmann-json's own messages are of its types, which callers of ours do not know.
    if constexpr (std::is_same_v<T, bool>)
      if (!field.is_boolean()) throw std::runtime_error("true or false is needed");
    if constexpr (std::is_floating_point_v<T>)
      if (!field.is_number()) throw std::runtime_error("a number is needed");
    if constexpr (std::is_same_v<T, std::string>)
      if (!field.is_string()) throw std::runtime_error("a text is needed");
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      if (!field.is_number_integer()) throw std::runtime_error("an integer is needed");
      if (field.is_number_unsigned() ? !std::in_range<T>(field.get<uint64_t>())
                                     : !std::in_range<T>(field.get<int64_t>()))
        throw std::runtime_error("the number is out of range");
    }
    return field.get<T>();
  }

 private:
  std::string what_;
  nlohmann::json json_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace camshaft::llm
