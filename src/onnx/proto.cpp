#include "onnx/proto.h"

namespace camshaft::onnx {

const AttributeProto* NodeProto::find_attribute(std::string_view attribute_name) const {
  for (const AttributeProto& attribute : attributes)
    if (attribute.name == attribute_name) return &attribute;
  return nullptr;
}

namespace {

// Names may hold any bytes: their lengths tell where each ends.
std::string key_of(const std::string& domain, const std::string& name, const std::string& overload) {
  return std::to_string(domain.size()) + "." + std::to_string(name.size()) + "." + domain + name + overload;
}

}  // namespace

FunctionTable::FunctionTable(const ModelProto& model) {
  for (const FunctionProto& f : model.functions) by_name_.emplace(key_of(f.domain, f.name, f.overload), &f);
}

const FunctionProto* FunctionTable::find(const NodeProto& node) const {
  if (by_name_.empty()) return nullptr;
  const auto it = by_name_.find(key_of(node.domain, node.op_type, node.overload));
  return it == by_name_.end() ? nullptr : it->second;
}

}  // namespace camshaft::onnx
