#include "onnx/node_importer.h"

#include <fmt/format.h>

#include <algorithm>

#include "onnx/converters.h"
#include "onnx/missing_operators.h"
#include "onnx/node_order.h"
#include "onnx/quote.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

namespace {

using Attributes = std::unordered_map<std::string, const AttributeProto*>;

// Thrown by a function whose body could not be converted as a whole: its nodes are already reported.
struct BodyRefused {};

/// Puts the values of a call's attributes where the body refers to them; an attribute without a value is left out.
void substitute(NodeProto& node, const Attributes& values) {
  std::vector<AttributeProto> kept;
  for (AttributeProto& attribute : node.attributes) {
    if (!attribute.ref_attr_name.empty()) {
      const auto it = values.find(attribute.ref_attr_name);
      if (it == values.end()) continue;
      AttributeProto value = *it->second;
      value.name = attribute.name;
      value.ref_attr_name.clear();
      kept.push_back(std::move(value));
      continue;
    }
    for (GraphProto& graph : attribute.graphs)
      for (NodeProto& inner : graph.nodes) substitute(inner, values);
    kept.push_back(std::move(attribute));
  }
  node.attributes = std::move(kept);
}

}  // namespace

void NodeImporter::add_initializers(const GraphProto& graph, Scope& scope) {
  for (const TensorProto& tensor : graph.initializers) {
    if (!scope.initializers.emplace(tensor.name, &tensor).second)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{}: initializer {} is listed twice", model_.file, quote(tensor.name)));
  }
  for (const SparseTensorProto& tensor : graph.sparse_initializers)
    scope.values[tensor.values.name] =
        target_.graph.add_constant(tensor.values.name, to_tensor(target_.tensors.read(tensor)));
}

std::optional<ValueId> NodeImporter::find(const std::string& name, Scope& scope) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) return it->second;
  const auto it = scope.initializers.find(name);
  if (it == scope.initializers.end()) return std::nullopt;
  const ValueId id =
      target_.graph.add_constant(scope.prefix + name, to_tensor(target_.tensors.read(*it->second, "initializer")));
  scope.values[name] = id;
  return id;
}

void NodeImporter::add_nodes(const std::vector<NodeProto>& nodes, Scope& scope) {
  for (const size_t n : topological_order(nodes, model_.file)) add_node(nodes[n], scope);
}

void NodeImporter::add_node(const NodeProto& node, Scope& scope) {
  const std::string source = scope.prefix + display_name(node);
  const auto refuse = [&] {
    for (const std::string& output : node.outputs) scope.lost.insert(output);
  };
  Values inputs;
  for (const std::string& name : node.inputs) {
    if (scope.lost.contains(name)) return refuse();
    const auto id = name.empty() ? std::optional<ValueId>(no_value) : find(name, scope);
    if (!id)
      throw Error(ErrorCode::invalid_model, fmt::format("{}: node {} ({}) reads {}, which is neither an input, nor an "
                                                        "initializer, nor the output of a node",
                                                        model_.file, quote(source), node.op_type, quote(name)));
    inputs.push_back(*id);
  }
  Values outputs;
  const auto first_new = static_cast<ValueId>(target_.graph.values.size());
  try {
    outputs = convert(node, source, std::move(inputs), scope);
  } catch (const BodyRefused&) {
    return refuse();
  } catch (const Error& e) {
    const bool names_node = dynamic_cast<const NodeError*>(&e) != nullptr;
    const std::string message =
        names_node ? e.what() : fmt::format("node {} ({}): {}", quote(source), node.op_type, e.what());
    if (e.code() != ErrorCode::unsupported) throw NodeError(e.code(), message);
    refused_.push_back(message);
    return refuse();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= outputs.size() || outputs[i] == no_value) {
      refused_.push_back(fmt::format("node {} ({}): its output {} ({}) is not supported", quote(source), node.op_type,
                                     i, quote(node.outputs[i])));
      scope.lost.insert(node.outputs[i]);
      continue;
    }
    // Converters name inner values after the operator; what the node returns has the name that the model gave it.
    if (outputs[i] >= first_new) target_.graph.rename(outputs[i], scope.prefix + node.outputs[i]);
    if (!scope.values.emplace(node.outputs[i], outputs[i]).second || scope.initializers.contains(node.outputs[i]))
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{}: node {} ({}) defines {}, which is already defined", model_.file, quote(source),
                              node.op_type, quote(node.outputs[i])));
  }
}

Values NodeImporter::convert(const NodeProto& node, const std::string& source, Values inputs, const Scope& scope) {
  if (const FunctionProto* function = model_.find_function(node.domain, node.op_type, node.overload))
    return inline_function(*function, node, source, inputs);
  const int64_t opset = opset_version(node.domain, *scope.opsets, model_);
  const Converter* converter = find_converter(node.domain, node.op_type, opset);
  if (!converter) throw Error(ErrorCode::unsupported, "Camshaft does not have this operator");
  ConvertContext context(target_, node, opset, source, scope.prefix, std::move(inputs));
  return converter->convert(context);
}

Values NodeImporter::inline_function(const FunctionProto& function, const NodeProto& call, const std::string& source,
                                     const Values& inputs) {
  if (std::find(calls_.begin(), calls_.end(), &function) != calls_.end())
    throw Error(ErrorCode::invalid_model, fmt::format("function {} calls itself", quote(function.name)));
  if (inputs.size() > function.inputs.size())
    throw Error(ErrorCode::invalid_model, fmt::format("it has {} inputs, function {} takes {}", inputs.size(),
                                                      quote(function.name), function.inputs.size()));
  Attributes attributes;
  for (const AttributeProto& a : function.default_attributes) attributes[a.name] = &a;
  for (const AttributeProto& a : call.attributes) attributes[a.name] = &a;
  std::vector<NodeProto> body = function.nodes;
  for (NodeProto& node : body) substitute(node, attributes);

  Scope scope{&function.opsets, source + "/", {}, {}, {}};
  std::set<std::string> absent;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (i < inputs.size() && inputs[i] != no_value) {
      scope.values[function.inputs[i]] = inputs[i];
    } else {
      absent.insert(function.inputs[i]);
    }
  }
  for (NodeProto& node : body)
    for (std::string& name : node.inputs)
      if (absent.contains(name)) name.clear();
  calls_.push_back(&function);
  add_nodes(body, scope);
  calls_.pop_back();

  Values outputs;
  for (const std::string& name : function.outputs) {
    if (scope.lost.contains(name)) throw BodyRefused();
    const auto it = scope.values.find(name);
    if (it == scope.values.end())
      throw Error(ErrorCode::invalid_model,
                  fmt::format("function {} does not compute its output {}", quote(function.name), quote(name)));
    outputs.push_back(it->second);
  }
  return outputs;
}

void NodeImporter::report() const {
  if (refused_.empty()) return;
  std::string list;
  for (const std::string& message : refused_) list += "\n  " + message;
  throw Error(ErrorCode::unsupported, fmt::format("{}: cannot run this model: {} node{} not supported:{}", model_.file,
                                                  refused_.size(), refused_.size() == 1 ? " is" : "s are", list));
}

}  // namespace camshaft::onnx
