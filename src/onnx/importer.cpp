#include "onnx/importer.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "ir/ops/size_demands.h"
#include "onnx/branch_cases.h"
#include "onnx/input_types.h"
#include "onnx/missing_operators.h"
#include "onnx/node_importer.h"
#include "onnx/proto_reader.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

ImportedModel import_model(const std::filesystem::path& file, const ImportOptions& options) {
  return import_model(read_model(file), options);
}

namespace {

// The sizes of inputs without a number that an operator has one for: channels that a convolution's weights take, say.
std::map<std::string, int64_t> demanded_sizes(const Graph& graph) {
  std::map<std::string, int64_t> sizes;
  for (const ops::SizeDemand& demand : ops::size_demands(graph)) {
    const auto symbol = demand.a.as_symbol() ? demand.a.as_symbol() : demand.b.as_symbol();
    const auto size = demand.a.as_constant() ? demand.a.as_constant() : demand.b.as_constant();
    if (!demand.broadcasts && symbol && size && *size > 0) sizes.try_emplace(*symbol, *size);
  }
  return sizes;
}

ImportedModel import_with_sizes(const ModelProto& model, const ImportOptions& options,
                                const std::map<std::string, int64_t>& demanded) {
  TensorReader tensors(model);
  NamedTensors named(model.graph, options.initializers);
  GraphUnderConstruction target(tensors, named);
  target.graph.name = model.graph.name;
  NodeImporter importer(model);
  Scope scope(model.opsets, target);
  importer.add_initializers(model.graph, scope);
  std::set<std::string> names;
  InputTypes types(model.graph.inputs, options, demanded);
  for (const ValueInfoProto& input : model.graph.inputs) {
    const std::string where = fmt::format("{}: input {}", model.file, quote(input.name));
    if (!names.insert(input.name).second) throw Error(ErrorCode::invalid_model, where + " is listed twice");
    if (scope.initializers.contains(input.name) || scope.values.contains(input.name)) continue;
    scope.values[input.name] = target.graph.add_input(input.name, types.type(input, where));
  }
  std::vector<std::string> results;
  for (const ValueInfoProto& output : model.graph.outputs) results.push_back(output.name);
  try {
    importer.add_nodes(model.graph.nodes, results, scope);
  } catch (const RanksDiffer& e) {
    importer.refuse(e.what);
  }
  importer.report();
  if (model.graph.outputs.empty())
    throw Error(ErrorCode::invalid_model,
                fmt::format("{}: the model has no outputs: nothing would be computed", model.file));
  names.clear();
  for (const ValueInfoProto& output : model.graph.outputs) {
    const std::string where = fmt::format("{}: output {}", model.file, quote(output.name));
    if (!names.insert(output.name).second) throw Error(ErrorCode::invalid_model, where + " is listed twice");
    const auto value = importer.find(output.name, scope);
    if (!value) throw Error(ErrorCode::invalid_model, where + " is computed by no node");
    target.graph.add_output(output.name, *value);
  }
  remove_dead(target.graph);

  ImportedModel out;
  out.graph = std::move(target.graph);
  out.producer = model.producer_name + (model.producer_version.empty() ? "" : " " + model.producer_version);
  // A model whose nodes are all of other domains need not name a version of the default one.
  const bool has_default = model.opsets.contains("") || model.opsets.contains("ai.onnx");
  out.opset = has_default || !model.functions.empty() ? opset_version("", model.opsets, model) : 0;
  out.metadata = model.metadata;
  out.model_nodes = static_cast<int64_t>(model.graph.nodes.size());
  return out;
}

}  // namespace

ImportedModel import_model(const ModelProto& model, const ImportOptions& options) {
  check_operators(model);
  ImportedModel imported = import_with_sizes(model, options, {});
  const std::map<std::string, int64_t> demanded = demanded_sizes(imported.graph);
  // Again, as shape arithmetic folds where sizes are known.
  return demanded.empty() ? std::move(imported) : import_with_sizes(model, options, demanded);
}

}  // namespace camshaft::onnx
