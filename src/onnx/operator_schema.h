// What operators' inputs, outputs and attributes are called, and of which types these are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/proto.h"

namespace camshaft::onnx {

struct OperatorParameter {
  enum class Count { one, optional, any };
  std::string name;
  std::string type;  ///< "tensor(int64)", or a letter that all parameters of the same type have ("T")
  Count count = Count::one;
};

struct OperatorAttribute {
  std::string name;
  AttributeType type = AttributeType::undefined;
  bool is_required = false;
};

struct OperatorSchema {
  std::string domain, op_type;
  int64_t since = 1;
  std::vector<OperatorParameter> inputs, outputs;
  std::vector<OperatorAttribute> attributes;  ///< sorted by name
  bool is_open = false;                       ///< takes attributes of other names, too
};

/// "a float", "integers", …
std::string_view attribute_type_name(AttributeType type);

/// Of an operator as a version of its domain has it; nothing for one that the table lacks.
std::optional<OperatorSchema> find_schema(std::string_view domain, std::string_view op_type, int64_t opset);

/// The newest version of a domain that the table knows; 1 for others.
int64_t newest_version(std::string_view domain);

}  // namespace camshaft::onnx
