#include "onnx/model_weights.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "ir/provenance.h"
#include "onnx/node_order.h"

namespace camshaft::onnx {

namespace {

// TensorProto.DataType: those in which shapes, indices, masks and texts are written.
constexpr int32_t usually_no_weights[] = {4, 5, 6, 7, 8, 9, 12, 13};
constexpr double many = Provenance::most_literal_bytes / 8;

}  // namespace

const AttributeProto* weights_of(const NodeProto& node) {
  if (node.op_type != "Constant" || !(node.domain.empty() || node.domain == "ai.onnx")) return nullptr;
  if (node.outputs.size() != 1 || node.outputs[0].empty()) return nullptr;
  const AttributeProto* value = node.find_attribute("value");
  // A damaged one may be a reference to a function's attribute, which has no value.
  if (!value || value->type != AttributeType::tensor || value->tensors.empty()) return nullptr;
  const TensorProto& tensor = value->tensors[0];
  double elements = 1;
  for (const int64_t size : tensor.dims) elements *= static_cast<double>(size);
  const bool is_usually_one = std::find(std::begin(usually_no_weights), std::end(usually_no_weights),
                                        tensor.data_type) == std::end(usually_no_weights);
  return elements > (is_usually_one ? 1 : many) ? value : nullptr;
}

std::set<std::string> integer_weights(const ModelProto& model) {
  static const std::set<std::pair<std::string_view, size_t>> places{
      {"DequantizeLinear", 0}, {"GatherBlockQuantized", 0}, {"GatherBlockQuantized", 3}, {"MatMulBnb4", 1},
      {"MatMulNBits", 1},      {"MatMulNBits", 3},          {"QLinearConv", 3},          {"QLinearConv", 8}};
  std::set<std::string> names;
  for_each_weight(model, [&](const std::string& name, const TensorProto&) { names.insert(name); });
  for (const NodeProto& node : model.graph.nodes) {
    std::map<std::string, int> others;  // how often the node reads it in other places
    for_each_read(node, [&](const std::string& name) { ++others[name]; });
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (places.contains({node.op_type, i})) --others[node.inputs[i]];
    for (const auto& [name, count] : others)
      if (count > 0) names.erase(name);
  }
  for (const ValueInfoProto& output : model.graph.outputs) names.erase(output.name);
  return names;
}

}  // namespace camshaft::onnx
