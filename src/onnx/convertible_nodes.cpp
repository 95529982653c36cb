#include "onnx/convertible_nodes.h"

#include <fmt/format.h>

#include "base/error.h"
#include "onnx/input_types.h"
#include "onnx/missing_operators.h"
#include "onnx/node_importer.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

/// Whether the importer has the operator, and in the version that the model uses.
void check_operator(const ModelProto& model, const NodeProto& node) {
  ModelProto alone;
  alone.file = model.file;
  alone.opsets = model.opsets;
  alone.functions = model.functions;
  alone.graph.nodes.push_back(node);
  check_operators(alone);
}

}  // namespace

std::vector<std::string> refused_nodes(const ModelProto& model) {
  TensorReader tensors(model);
  NamedTensors named(model.graph, nullptr);
  GraphUnderConstruction target(tensors, named);
  NodeImporter importer(model);
  Scope scope(model.opsets, target);
  importer.add_initializers(model.graph, scope);
  const ImportOptions no_shapes;
  InputTypes types(model.graph.inputs, no_shapes);
  const auto add_input = [&](const ValueInfoProto& value) {
    const std::string where = fmt::format("{}: tensor {}", model.file, quote(value.name));
    scope.values[value.name] = target.graph.add_input(value.name, types.type(value, where));
  };
  for (const ValueInfoProto& input : model.graph.inputs)
    if (!scope.initializers.contains(input.name)) add_input(input);

  std::vector<std::string> reasons;
  for (const NodeProto& node : model.graph.nodes) {
    std::string& reason = reasons.emplace_back();
    try {
      check_operator(model, node);
      importer.add(node, scope);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::cancelled || e.code() == ErrorCode::out_of_memory) throw;
      reason = e.what();
    }
    if (reason.empty()) continue;
    for (const std::string& output : node.outputs) {
      const auto declared = scope.declared.find(output);
      if (output.empty() || declared == scope.declared.end()) continue;
      try {
        add_input({output, *declared->second});
      } catch (const Error&) {  // nodes that read it are refused
      }
    }
  }
  return reasons;
}

}  // namespace camshaft::onnx
