// Facts that the library reports: trees of named values, so that later versions can say more.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camshaft/camshaft.h"
#include "camshaft/error.hpp"

namespace camshaft {
inline namespace v1 {

/// A value of a record: null, a boolean, a number, text, a list or an object. Cheap to copy.
class Record {
 public:
  Record() = default;
  /// Takes over what a call of the C interface gave.
  explicit Record(camshaft_record* root) : root_(root, camshaft_record_free), value_(root) {}
  /// One that somebody else keeps.
  static Record borrowed(const camshaft_record* value) { return {nullptr, value}; }

  /// A value of an object; null where there is none, so that records of earlier versions can be read.
  Record operator[](std::string_view key) const {
    return {root_, camshaft_record_get(value_, std::string(key).c_str())};
  }
  Record operator[](size_t index) const { return {root_, camshaft_record_at(value_, index)}; }
  /// The name of a value of an object.
  std::string key(size_t index) const {
    const char* name = camshaft_record_key(value_, index);
    return name == nullptr ? "" : name;
  }
  size_t size() const { return camshaft_record_size(value_); }
  bool is_null() const { return camshaft_record_kind(value_) == CAMSHAFT_RECORD_NULL; }

  /// Empty, 0 or false for a value of another kind.
  std::string text() const {
    size_t length = 0;
    const char* begin = camshaft_record_text(value_, &length);
    return {begin, length};
  }
  int64_t integer() const { return camshaft_record_integer(value_); }
  double number() const { return camshaft_record_number(value_); }
  bool boolean() const { return camshaft_record_boolean(value_) != 0; }

  /// What `make` gives for each value of a list.
  template <class Make>
  auto list(const Make& make) const {
    std::vector<decltype(make(std::declval<const Record&>()))> items;
    items.reserve(size());
    for (size_t i = 0; i < size(); ++i) items.push_back(make((*this)[i]));
    return items;
  }
  std::vector<std::string> texts() const {
    return list([](const Record& item) { return item.text(); });
  }
  std::vector<int64_t> integers() const {
    return list([](const Record& item) { return item.integer(); });
  }
  /// As JSON; infinities and NaN become null. `indent`: spaces, or -1 for one line.
  std::string json(int indent = -1) const {
    camshaft_record* text = nullptr;
    detail::check(camshaft_record_json(value_, indent, &text));
    return Record(text).text();
  }

 private:
  Record(std::shared_ptr<camshaft_record> root, const camshaft_record* value) : root_(std::move(root)), value_(value) {}

  std::shared_ptr<camshaft_record> root_;
  const camshaft_record* value_ = nullptr;
};

namespace detail {

/// What a call of the C interface gives through its last pointer.
template <class Call>
Record record_of(const Call& call) {
  camshaft_record* record = nullptr;
  check(call(&record));
  return Record(record);
}

}  // namespace detail

}  // namespace v1
}  // namespace camshaft
