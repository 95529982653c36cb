#include "onnx/export/sums_of_quantized_products.h"

#include <algorithm>
#include <string>
#include <unordered_set>

namespace camshaft::onnx {

void write_sums_of_quantized_products(GraphProto& graph) {
  std::unordered_set<std::string> dequantized, products;
  for (NodeProto& node : graph.nodes) {
    const auto all_in = [&](const std::unordered_set<std::string>& names) {
      return std::all_of(node.inputs.begin(), node.inputs.end(),
                         [&](const auto& name) { return names.contains(std::string(name)); });
    };
    const auto any_in = [&](const std::unordered_set<std::string>& names) {
      return std::any_of(node.inputs.begin(), node.inputs.end(),
                         [&](const auto& name) { return names.contains(std::string(name)); });
    };
    if (node.op_type == "DequantizeLinear") dequantized.emplace(node.outputs.at(0));
    if (node.op_type == "MatMul" && all_in(dequantized)) products.emplace(node.outputs.at(0));
    if (node.op_type == "Add" && any_in(products)) node.op_type = "Sum";
  }
}

}  // namespace camshaft::onnx
