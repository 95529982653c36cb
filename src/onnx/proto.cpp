#include "onnx/proto.h"

namespace camshaft::onnx {

const AttributeProto* NodeProto::find_attribute(std::string_view attribute_name) const {
  for (const AttributeProto& attribute : attributes)
    if (attribute.name == attribute_name) return &attribute;
  return nullptr;
}

const FunctionProto* ModelProto::find_function(std::string_view function_domain, std::string_view function_name,
                                               std::string_view overload) const {
  for (const FunctionProto& function : functions)
    if (function.name == function_name && function.domain == function_domain && function.overload == overload)
      return &function;
  return nullptr;
}

}  // namespace camshaft::onnx
