#include "onnx/node_importer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/work_scope.h"
#include "ir/ops/generate.h"
#include "ir/replaceable.h"
#include "ir/symbols.h"
#include "onnx/branch_cases.h"
#include "onnx/claimed_operators.h"
#include "onnx/converters.h"
#include "onnx/missing_operators.h"
#include "onnx/node_order.h"
#include "onnx/quote.h"
#include "onnx/subgraphs.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

namespace {

using NamedAttributes = std::unordered_map<std::string, const AttributeProto*>;

size_t bytes_of(const TensorProto& tensor) {
  size_t bytes = 4 * (tensor.float_data.size() + tensor.int32_data.size()) +
                 8 * (tensor.double_data.size() + tensor.int64_data.size() + tensor.uint64_data.size());
  for (const std::string& text : tensor.string_data) bytes += sizeof text + text.size();
  return bytes;
}

/// What a copy of it takes, roughly.
size_t bytes_of(const AttributeProto& attribute) {
  size_t bytes = sizeof attribute + attribute.s.size() + 4 * attribute.floats.size() + 8 * attribute.ints.size();
  for (const std::string& text : attribute.strings) bytes += sizeof text + text.size();
  for (const TensorProto& tensor : attribute.tensors) bytes += bytes_of(tensor);
  for (const SparseTensorProto& tensor : attribute.sparse_tensors)
    bytes += bytes_of(tensor.values) + bytes_of(tensor.indices);
  for (const GraphProto& graph : attribute.graphs) {
    for (const TensorProto& tensor : graph.initializers) bytes += bytes_of(tensor);
    for (const NodeProto& node : graph.nodes) {
      bytes += sizeof node;
      for (const AttributeProto& inner : node.attributes) bytes += bytes_of(inner);
    }
  }
  return bytes;
}

/// Puts the values of a call's attributes where the body refers to them; an attribute without a value is left out.
/// `copied` counts the bytes.
void substitute(NodeProto& node, const NamedAttributes& values, size_t& copied) {
  std::vector<AttributeProto> kept;
  for (AttributeProto& attribute : node.attributes) {
    if (!attribute.ref_attr_name.empty()) {
      const auto it = values.find(attribute.ref_attr_name);
      if (it == values.end()) continue;
      constexpr size_t most_bytes = size_t{256} << 20;  // many nodes may refer to one long list
      copied += bytes_of(*it->second);
      if (copied > most_bytes)
        throw Error(ErrorCode::invalid_model, fmt::format("the attributes of the model's functions take more than {} "
                                                          "bytes when they are inlined",
                                                          most_bytes));
      AttributeProto value = *it->second;
      value.name = attribute.name;
      value.ref_attr_name.clear();
      kept.push_back(std::move(value));
      continue;
    }
    for (GraphProto& graph : attribute.graphs)
      for (NodeProto& inner : graph.nodes) substitute(inner, values, copied);
    kept.push_back(std::move(attribute));
  }
  node.attributes = std::move(kept);
}

/// Takes out the reads of inputs that the call leaves out.
void leave_out(NodeProto& node, const std::set<std::string>& absent) {
  for (std::string& name : node.inputs)
    if (absent.contains(name)) name.clear();
  for (AttributeProto& attribute : node.attributes)
    for (GraphProto& graph : attribute.graphs)
      for (NodeProto& inner : graph.nodes) leave_out(inner, absent);
}

/// An attribute that refers to one of the function around has no value of its own: substitute() has put one in its
/// place, where there is a function.
void check_has_value(const AttributeProto& attribute) {
  if (!attribute.ref_attr_name.empty())
    throw Error(ErrorCode::invalid_model, fmt::format("attribute {} refers to {}, and is in no function that has it",
                                                      quote(attribute.name), quote(attribute.ref_attr_name)));
}

// Conversions that an exception gives up may be tried again in another way.
class OpenCall {
 public:
  OpenCall(std::vector<const FunctionProto*>& calls, const FunctionProto& function) : calls_(calls) {
    calls.push_back(&function);
  }
  ~OpenCall() { calls_.pop_back(); }
  OpenCall(const OpenCall&) = delete;
  OpenCall& operator=(const OpenCall&) = delete;

 private:
  std::vector<const FunctionProto*>& calls_;
};

/// True when the elements are known, and stay known where only the sizes of the model's inputs are.
bool is_shape_arithmetic(const Value& value) {
  if (!value.content || value.type.shape.size() > 1) return false;
  if (value.type.dtype != DType::i64 && value.type.dtype != DType::i32 && value.type.dtype != DType::boolean)
    return false;
  return !names_run_time_sizes(*value.content);
}

/// What a sub-graph sees of a value of the graph around it: a constant, sizes, or an input for it.
ValueId capture(ValueId id, Scope& scope) {
  if (const auto it = scope.captured.find(id); it != scope.captured.end()) return it->second;
  GraphUnderConstruction& around = *scope.outer->target;
  const Value& value = around.graph.value(id);
  Graph& graph = scope.target->graph;
  ValueId inside = no_value;
  const auto found = [&] {
    const ReplaceableScope is_not_read(nullptr);
    return around.constants.find(id);
  };
  if (const Constant constant = found(); constant.tensor) {
    inside = graph.add_constant(value.name, constant);
  } else if (is_shape_arithmetic(value)) {
    inside = graph.add(ops::DimsTensor{*value.content, value.type.dtype, value.type.shape.empty()}, {},
                       scope.prefix + value.name);
  } else {
    inside = graph.add_input(value.name, value.type);
    scope.captures.push_back(id);
  }
  scope.captured[id] = inside;
  return inside;
}

}  // namespace

void NodeImporter::add_initializers(const GraphProto& graph, Scope& scope) {
  for (const TensorProto& tensor : graph.initializers) {
    if (!scope.initializers.emplace(tensor.name, &tensor).second)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{}: initializer {} is listed twice", model_.file, quote(tensor.name)));
  }
  declare(graph.value_infos, scope);
  declare(graph.outputs, scope);
  for (const SparseTensorProto& tensor : graph.sparse_initializers)
    scope.values[tensor.values.name] = scope.target->graph.add_constant(
        tensor.values.name,
        scope.target->named.add(scope.prefix, tensor.values.name, to_tensor(scope.target->tensors.read(tensor))));
}

void NodeImporter::declare(const std::vector<ValueInfoProto>& values, Scope& scope) {
  for (const ValueInfoProto& value : values) scope.declared[value.name] = &value.type;
}

std::optional<ValueId> NodeImporter::find(const std::string& name, Scope& scope) {
  if (const auto it = scope.values.find(name); it != scope.values.end()) return it->second;
  const auto it = scope.initializers.find(name);
  if (it != scope.initializers.end()) {
    GraphUnderConstruction& target = *scope.target;
    const ValueId id = target.graph.add_constant(
        scope.prefix + name,
        target.named.add(scope.prefix, name, to_tensor(target.tensors.read(*it->second, "initializer"))));
    scope.values[name] = id;
    return id;
  }
  const auto around = scope.outer ? find(name, *scope.outer) : std::nullopt;
  if (!around || scope.outer->target == scope.target) return around;
  return capture(*around, scope);
}

bool NodeImporter::is_lost(const std::string& name, const Scope& scope) {
  for (const Scope* s = &scope; s; s = s->outer) {
    if (s->lost.contains(name)) return true;
    if (s->values.contains(name) || s->initializers.contains(name)) return false;
  }
  return false;
}

std::string NodeImporter::unique_prefix(const std::string& base) {
  const auto [it, is_new] = prefixes_.emplace(base, 0);
  return is_new ? base + "/" : unique_prefix(fmt::format("{}_{}", base, ++it->second));
}

void NodeImporter::add_nodes(const std::vector<NodeProto>& nodes, const std::vector<std::string>& results,
                             Scope& scope) {
  std::vector<NodeProto> waiting;  // an If whose branches differ in rank, and what depends on it
  std::set<std::string> theirs;
  const auto wait = [&](const NodeProto& node) {
    waiting.push_back(node);
    for (const std::string& output : node.outputs)
      if (!output.empty()) theirs.insert(output);
  };
  const auto depends = [&](const NodeProto& node) {
    bool any = false;
    for_each_read(node, [&](const std::string& name) { any = any || theirs.contains(name); });
    return any;
  };
  for (const size_t n : topological_order(nodes, model_.file)) {
    if (!waiting.empty() && depends(nodes[n])) {
      wait(nodes[n]);
      continue;
    }
    try {
      add_node(nodes[n], scope);
    } catch (const RanksDiffer&) {
      wait(nodes[n]);
    }
  }
  if (!waiting.empty()) add_cases(*this, waiting, results, scope);
}

void NodeImporter::add(const NodeProto& node, Scope& scope) {
  const auto forget = [&] {
    for (const std::string& output : node.outputs) {
      scope.values.erase(output);
      scope.lost.erase(output);
    }
    refused_.clear();
    is_refused_.clear();
  };
  try {
    add_node(node, scope);
  } catch (const RanksDiffer& e) {
    forget();
    throw Error(ErrorCode::unsupported, fmt::format("node {} ({}): {}", quote(node.name), node.op_type, e.what));
  } catch (...) {
    forget();
    throw;
  }
  if (refused_.empty()) return;
  const std::string message = fmt::format("{}", fmt::join(refused_, "; "));
  forget();
  throw Error(ErrorCode::unsupported, message);
}

void NodeImporter::refuse(std::string message) {
  if (is_refused_.insert(message).second) refused_.push_back(std::move(message));
}

NodeImporter::Case::Case(NodeImporter& importer, size_t nodes) : importer_(importer) {
  importer.case_nodes_ += nodes;
  if (importer.case_nodes_ > largest_cases || importer.open_cases_ >= deepest_cases)
    throw Error(ErrorCode::unsupported, "the model has too many branches whose results differ in rank");
  ++importer.open_cases_;
}

void NodeImporter::add_node(const NodeProto& node, Scope& scope) {
  const std::string source = shortened(scope.prefix + display_name(node));
  const auto refuse = [&] {
    for (const std::string& output : node.outputs) scope.lost.insert(output);
  };
  Graph& graph = scope.target->graph;
  Values inputs;
  for (const std::string& name : node.inputs) {
    if (is_lost(name, scope)) return refuse();
    const auto id = name.empty() ? std::optional<ValueId>(no_value) : find(name, scope);
    if (!id)
      throw Error(ErrorCode::invalid_model, fmt::format("{}: node {} ({}) reads {}, which is neither an input, nor an "
                                                        "initializer, nor the output of a node",
                                                        model_.file, quote(source), node.op_type, quote(name)));
    inputs.push_back(*id);
  }
  Values outputs;
  const auto first_new = static_cast<ValueId>(graph.values.size());
  try {
    outputs = convert(node, source, std::move(inputs), scope);
  } catch (const BodyRefused&) {
    return refuse();
  } catch (const Error& e) {
    const bool names_node = dynamic_cast<const NodeError*>(&e) != nullptr;
    const std::string message =
        names_node ? e.what() : fmt::format("node {} ({}): {}", quote(source), node.op_type, e.what());
    // Arithmetic on sizes does not know that its numbers are a model's.
    if (e.code() == ErrorCode::invalid_argument) throw NodeError(ErrorCode::invalid_model, message);
    if (e.code() != ErrorCode::unsupported) throw NodeError(e.code(), message);
    this->refuse(message);
    return refuse();
  } catch (const RanksDiffer& e) {
    if (node.op_type == "If" && (node.domain.empty() || node.domain == "ai.onnx")) throw;
    this->refuse(fmt::format("node {} ({}): {}", quote(source), node.op_type, e.what));
    return refuse();
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (i >= outputs.size() || outputs[i] == no_value) {
      this->refuse(fmt::format("node {} ({}): its output {} ({}) is not supported", quote(source), node.op_type, i,
                               quote(node.outputs[i])));
      scope.lost.insert(node.outputs[i]);
      continue;
    }
    // Converters name inner values after the operator; what the node returns has the name that the model gave it.
    if (const Value& value = graph.value(outputs[i]);
        outputs[i] >= first_new && !names_sizes_of(value.name, value.type.shape))
      graph.rename(outputs[i], scope.prefix + node.outputs[i]);
    if (!scope.values.emplace(node.outputs[i], outputs[i]).second || scope.initializers.contains(node.outputs[i]))
      throw Error(ErrorCode::invalid_model,
                  fmt::format("{}: node {} ({}) defines {}, which is already defined", model_.file, quote(source),
                              node.op_type, quote(node.outputs[i])));
  }
}

Values NodeImporter::convert(const NodeProto& node, const std::string& source, Values inputs, Scope& scope) {
  for (const AttributeProto& attribute : node.attributes) check_has_value(attribute);
  if (depth > 0 && ++nested_nodes_ > largest_nested)
    throw Error(ErrorCode::invalid_model,
                fmt::format("the model's sub-graphs make more than {} nodes when loops are tried out", largest_nested));
  const Claim claim = find_claim(node);
  // What is loaded goes before a function of the model, which may be there for whoever has not loaded it.
  const FunctionProto* function = claim ? claim.function : functions_.find(node);
  if (function) return inline_function(*function, node, source, inputs, *scope.target);
  const int64_t opset = opset_version(node.domain, *scope.opsets, model_);
  const Converter* converter = find_converter(node.domain, node.op_type, opset);
  if (!converter && !claim) throw Error(ErrorCode::unsupported, "Camshaft does not have this operator");
  ScopedSubgraphs subgraphs(*this, scope, source);
  ConvertContext context(*scope.target, subgraphs, scope.declared, node, opset, source, scope.prefix,
                         std::move(inputs));
  if (claim.plugin) return convert_plugin(context, *claim.plugin);
  if (claim.expression) return convert_expression(context, *claim.expression);
  return converter->convert(context);
}

Values NodeImporter::inline_function(const FunctionProto& function, const NodeProto& call, const std::string& source,
                                     const Values& inputs, GraphUnderConstruction& target) {
  if (std::find(calls_.begin(), calls_.end(), &function) != calls_.end())
    throw Error(ErrorCode::invalid_model, fmt::format("function {} calls itself", quote(function.name)));
  if (calls_.size() >= deepest_calls)
    throw Error(ErrorCode::invalid_model, fmt::format("functions call each other deeper than {}", deepest_calls));
  for (const AttributeProto& a : function.default_attributes) check_has_value(a);
  if (inputs.size() > function.inputs.size())
    throw Error(ErrorCode::invalid_model, fmt::format("it has {} inputs, function {} takes {}", inputs.size(),
                                                      quote(function.name), function.inputs.size()));
  NamedAttributes attributes;
  for (const AttributeProto& a : function.default_attributes) attributes[a.name] = &a;
  for (const AttributeProto& a : call.attributes) attributes[a.name] = &a;
  // Functions that call functions can double with every level: 30 lines of a model that would fill any memory. Up to
  // there the 2.5 kB of twelve such levels took 38 s on a loaded machine, which a first Ctrl-C has to end.
  cancellation_point();
  inlined_nodes_ += function.nodes.size();
  if (inlined_nodes_ > largest_inlined) refuse_inlined();
  std::vector<NodeProto> body = function.nodes;
  for (NodeProto& node : body) substitute(node, attributes, copied_bytes_);

  Scope scope(function.opsets, target, source + "/");
  declare(function.value_infos, scope);
  std::set<std::string> absent;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    if (i < inputs.size() && inputs[i] != no_value) {
      scope.values[function.inputs[i]] = inputs[i];
    } else {
      absent.insert(function.inputs[i]);
    }
  }
  for (NodeProto& node : body) leave_out(node, absent);
  const OpenCall open(calls_, function);
  add_nodes(body, function.outputs, scope);

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
