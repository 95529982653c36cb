// The attributes of a node that is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// `Attributes().integer("axis", 1).text("mode", "linear")`
class Attributes {
 public:
  /// Those of a node that was read.
  static Attributes of(std::vector<AttributeProto> list) {
    Attributes attributes;
    attributes.list_ = std::move(list);
    return attributes;
  }

  Attributes& integer(std::string_view name, int64_t value);
  Attributes& flag(std::string_view name, bool value) { return integer(name, value ? 1 : 0); }
  /// Attributes are of f32.
  Attributes& number(std::string_view name, double value);
  Attributes& text(std::string_view name, std::string_view value);
  Attributes& integers(std::string_view name, std::vector<int64_t> values);
  Attributes& numbers(std::string_view name, const std::vector<double>& values);
  Attributes& texts(std::string_view name, std::vector<std::string> values);
  Attributes& tensor(std::string_view name, TensorProto value);
  Attributes& graph(std::string_view name, GraphProto value);
  Attributes& type(std::string_view name, TypeProto value);

  std::vector<AttributeProto> take() && { return std::move(list_); }

 private:
  AttributeProto& add(std::string_view name, AttributeType type);
  std::vector<AttributeProto> list_;
};

}  // namespace camshaft::onnx
