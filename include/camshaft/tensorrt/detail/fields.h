// Attributes of ONNX nodes as fields, and what plugins store in engines.
#pragma once

#include <cstring>
#include <deque>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "camshaft/tensorrt/detail/plugins.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// Bytes of an element; 0 for texts and what has none.
inline size_t bytes_of(PluginFieldType type) {
  switch (type) {
    case PluginFieldType::kFLOAT64:
    case PluginFieldType::kINT64:
      return 8;
    case PluginFieldType::kFLOAT32:
    case PluginFieldType::kINT32:
      return 4;
    case PluginFieldType::kFLOAT16:
    case PluginFieldType::kBF16:
    case PluginFieldType::kINT16:
      return 2;
    case PluginFieldType::kDIMS:
      return sizeof(Dims);
    default:
      return 1;
  }
}

/// Fields with the memory that they point to.
class Fields {
 public:
  PluginFieldCollection const* get() {
    collection_.nbFields = static_cast<int32_t>(fields_.size());
    collection_.fields = fields_.data();
    return &collection_;
  }

  /// What the creator asks for, of a node; attributes that the node lacks are left out.
  void read(camshaft_plugin_node const* node, PluginFieldCollection const* wanted) {
    for (int32_t i = 0; wanted && i < wanted->nbFields; ++i) {
      PluginField const& field = wanted->fields[i];
      if (!field.name) continue;
      int64_t const* integers = nullptr;
      double const* numbers = nullptr;
      switch (node->attribute_kind(node, field.name)) {
        case CAMSHAFT_PLUGIN_INTEGERS: {
          const size_t count = node->integers(node, field.name, &integers);
          if (field.type == PluginFieldType::kDIMS) {
            add_dims(field.name, integers, count);
          } else {
            add_numbers(field.name, or_else(field.type, PluginFieldType::kINT32), integers, count);
          }
          break;
        }
        case CAMSHAFT_PLUGIN_NUMBERS: {
          const size_t count = node->numbers(node, field.name, &numbers);
          add_numbers(field.name, or_else(field.type, PluginFieldType::kFLOAT32), numbers, count);
          break;
        }
        case CAMSHAFT_PLUGIN_TEXTS:
          add_texts(node, field);
          break;
        case CAMSHAFT_PLUGIN_TENSOR:
          add_tensor(*node->tensor(node, field.name), field);
          break;
        default:
          break;
      }
    }
  }

  /// As text: for each field its name, type, length and bytes.
  static std::string stored(PluginFieldCollection const* collection) {
    std::string text;
    const auto number = [&](int64_t value) { text.append(reinterpret_cast<char const*>(&value), sizeof value); };
    const int32_t count = collection ? collection->nbFields : 0;
    number(count);
    for (int32_t i = 0; i < count; ++i) {
      PluginField const& field = collection->fields[i];
      const std::string name = field.name ? field.name : "";
      const size_t bytes = field.data ? bytes_of(field.type) * static_cast<size_t>(field.length) : 0;
      number(static_cast<int64_t>(name.size()));
      text += name;
      number(static_cast<int64_t>(field.type));
      number(field.length);
      number(static_cast<int64_t>(bytes));
      text.append(static_cast<char const*>(field.data), bytes);
    }
    return text;
  }
  /// The inverse. Throws std::runtime_error.
  void read(char const* text, size_t size) {
    size_t at = 0;
    const auto take = [&](size_t bytes) {
      if (bytes > size - at) throw std::runtime_error("what the engine stored of it is cut short");
      at += bytes;
      return text + at - bytes;
    };
    const auto number = [&] {
      int64_t value = 0;
      std::memcpy(&value, take(sizeof value), sizeof value);
      return value;
    };
    const int64_t count = number();
    for (int64_t i = 0; i < count; ++i) {
      const auto name_size = static_cast<size_t>(number());
      const std::string name(take(name_size), name_size);
      const auto type = static_cast<PluginFieldType>(number());
      const auto length = static_cast<int32_t>(number());
      const auto bytes = static_cast<size_t>(number());
      char const* from = take(bytes);
      add(name, type, length, from, bytes);
    }
  }

 private:
  static PluginFieldType or_else(PluginFieldType type, PluginFieldType otherwise) {
    return type == PluginFieldType::kUNKNOWN ? otherwise : type;
  }
  /// Memory that is aligned for any element.
  char* memory(size_t bytes) {
    memory_.emplace_back((bytes + 15) / 8);
    return reinterpret_cast<char*>(memory_.back().data());
  }
  void add(std::string const& name, PluginFieldType type, int32_t length, void const* data, size_t bytes) {
    char* const kept = memory(bytes);
    if (bytes > 0) std::memcpy(kept, data, bytes);
    names_.push_back(name);
    fields_.emplace_back(names_.back().c_str(), kept, type, length);
  }
  /// "the attribute 'axis' is 300, and the plugin takes kINT8: integers from -128 to 127"
  [[noreturn]] static void refuse(char const* name, std::string const& value, PluginFieldType type) {
    throw std::runtime_error(std::string("the attribute '") + name + "' is " + value + ", and the plugin takes " +
                             taken(type));
  }
  static std::string taken(PluginFieldType type) {
    switch (type) {
      case PluginFieldType::kINT8:
        return "kINT8" + range<int8_t>();
      case PluginFieldType::kINT16:
        return "kINT16" + range<int16_t>();
      case PluginFieldType::kINT32:
        return "kINT32" + range<int32_t>();
      case PluginFieldType::kINT64:
        return "kINT64" + range<int64_t>();
      case PluginFieldType::kFLOAT32:
        return "kFLOAT32: numbers";
      case PluginFieldType::kFLOAT64:
        return "kFLOAT64: numbers";
      case PluginFieldType::kCHAR:
        return "kCHAR: a text";
      case PluginFieldType::kDIMS:
        return "kDIMS: integers, 8 at most";
      default:
        return "it as a tensor alone (PluginFieldType " + std::to_string(static_cast<int32_t>(type)) + ")";
    }
  }
  template <class To>
  static std::string range() {
    return ": integers from " + std::to_string(std::numeric_limits<To>::min()) + " to " +
           std::to_string(std::numeric_limits<To>::max());
  }
  /// Integers are given as floating point as near as can be; nothing else may change.
  template <class To>
  static bool can_be(int64_t value) {
    return !std::is_integral<To>::value || static_cast<int64_t>(static_cast<To>(value)) == value;
  }
  template <class To>
  static bool can_be(double) {
    return !std::is_integral<To>::value;
  }
  static std::string text_of(int64_t value) { return std::to_string(value); }
  /// "2.0": that it is no integer is what is wrong.
  static std::string text_of(double value) {
    std::ostringstream text;
    text << value;
    return text.str() + (text.str().find_first_not_of("-0123456789") == std::string::npos ? ".0" : "");
  }
  template <class To, class From>
  static std::string converted(char const* name, PluginFieldType type, From const* values, size_t count) {
    std::string bytes;
    for (size_t i = 0; i < count; ++i) {
      if (!can_be<To>(values[i])) refuse(name, text_of(values[i]), type);
      const To value = static_cast<To>(values[i]);
      bytes.append(reinterpret_cast<char const*>(&value), sizeof value);
    }
    return bytes;
  }
  template <class From>
  static std::string bytes_as(char const* name, PluginFieldType type, From const* values, size_t count) {
    switch (type) {
      case PluginFieldType::kFLOAT32:
        return converted<float>(name, type, values, count);
      case PluginFieldType::kFLOAT64:
        return converted<double>(name, type, values, count);
      case PluginFieldType::kINT8:
        return converted<int8_t>(name, type, values, count);
      case PluginFieldType::kINT16:
        return converted<int16_t>(name, type, values, count);
      case PluginFieldType::kINT32:
        return converted<int32_t>(name, type, values, count);
      case PluginFieldType::kINT64:
        return converted<int64_t>(name, type, values, count);
      default:
        refuse(name, std::is_integral<From>::value ? "of integers" : "of numbers", type);
    }
  }
  template <class From>
  void add_numbers(char const* name, PluginFieldType type, From const* values, size_t count) {
    const std::string bytes = bytes_as(name, type, values, count);
    add(name, type, static_cast<int32_t>(count), bytes.data(), bytes.size());
  }
  void add_dims(char const* name, int64_t const* values, size_t count) {
    if (count > Dims::MAX_DIMS) throw std::runtime_error(std::string("the attribute '") + name + "' has over 8 sizes");
    Dims dims{static_cast<int32_t>(count), {}};
    for (size_t i = 0; i < count; ++i) {
      dims.d[i] = static_cast<DimsSize>(values[i]);
      if (dims.d[i] != values[i])
        throw std::runtime_error(std::string("the attribute '") + name + "' has " + std::to_string(values[i]) +
                                 ", and the plugin takes kDIMS" + range<DimsSize>());
    }
    add(name, PluginFieldType::kDIMS, 1, &dims, sizeof dims);
  }
  /// Several with a 0 between them.
  void add_texts(camshaft_plugin_node const* node, PluginField const& wanted) {
    char const *const name = wanted.name, *text = nullptr;
    std::string all;
    size_t length = 0;
    if (wanted.type != PluginFieldType::kCHAR && wanted.type != PluginFieldType::kUNKNOWN) {
      const size_t count = node->texts(node, name, 0, &text, &length);
      refuse(name, count == 0 ? "of texts" : "the text '" + std::string(text, length) + "'", wanted.type);
    }
    for (size_t i = 0, count = node->texts(node, name, 0, &text, &length); i < count; ++i) {
      node->texts(node, name, i, &text, &length);
      if (i > 0) all += '\0';
      all.append(text, length);
    }
    // What reads to a 0 finds one.
    add(name, PluginFieldType::kCHAR, static_cast<int32_t>(all.size()), all.c_str(), all.size() + 1);
  }
  void add_tensor(camshaft_plugin_tensor const& tensor, PluginField const& wanted) {
    static constexpr struct {
      camshaft_dtype dtype;
      PluginFieldType type;
    } types[] = {{CAMSHAFT_F16, PluginFieldType::kFLOAT16}, {CAMSHAFT_F32, PluginFieldType::kFLOAT32},
                 {CAMSHAFT_F64, PluginFieldType::kFLOAT64}, {CAMSHAFT_I8, PluginFieldType::kINT8},
                 {CAMSHAFT_I16, PluginFieldType::kINT16},   {CAMSHAFT_I32, PluginFieldType::kINT32},
                 {CAMSHAFT_I64, PluginFieldType::kINT64},   {CAMSHAFT_BF16, PluginFieldType::kBF16}};
    for (const auto& pair : types)
      if (pair.dtype == tensor.dtype && (wanted.type == pair.type || wanted.type == PluginFieldType::kUNKNOWN))
        return add(wanted.name, pair.type, static_cast<int32_t>(tensor.bytes / bytes_of(pair.type)), tensor.data,
                   tensor.bytes);
    throw std::runtime_error(std::string("the attribute '") + wanted.name + "' is a tensor of another type");
  }

  std::deque<std::string> names_;
  std::deque<std::vector<int64_t>> memory_;
  std::vector<PluginField> fields_;
  PluginFieldCollection collection_;
};

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
