#include "onnx/branch_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "ir/ops/control_flow.h"
#include "onnx/node_order.h"
#include "onnx/quote.h"
#include "onnx/subgraphs.h"

namespace camshaft::onnx {

namespace {

using Renames = std::unordered_map<std::string, std::string>;

void rename(std::string& name, const Renames& names) {
  const auto it = names.find(name);
  if (it != names.end()) name = it->second;
}

void rename(NodeProto& node, const Renames& names);

// What a sub-graph reads from around it; its own names stay.
void rename_captures(GraphProto& graph, Renames names) {
  for (const ValueInfoProto& input : graph.inputs) names.erase(input.name);
  for (const TensorProto& tensor : graph.initializers) names.erase(tensor.name);
  for (const SparseTensorProto& tensor : graph.sparse_initializers) names.erase(tensor.values.name);
  for (const NodeProto& node : graph.nodes)
    for (const std::string& output : node.outputs) names.erase(output);
  for (NodeProto& node : graph.nodes) rename(node, names);
  for (ValueInfoProto& output : graph.outputs) rename(output.name, names);
}

void rename(NodeProto& node, const Renames& names) {
  for (std::string& input : node.inputs) rename(input, names);
  for (std::string& output : node.outputs) rename(output, names);
  for (AttributeProto& attribute : node.attributes)
    for (GraphProto& graph : attribute.graphs) rename_captures(graph, names);
}

/// A branch and what follows its If, as nodes of one graph: all that the branch defines is renamed to begin with
/// `prefix`, so that names of branches and of the graph around them do not meet.
GraphProto with_branch(const GraphProto& branch, const std::vector<NodeProto>& nodes, const std::string& prefix) {
  const NodeProto& if_node = nodes[0];
  if (!branch.inputs.empty())
    throw Error(ErrorCode::invalid_model,
                fmt::format("sub-graph {} has {} inputs, 0 are needed", quote(branch.name), branch.inputs.size()));
  if (branch.outputs.size() < if_node.outputs.size())
    throw Error(ErrorCode::invalid_model,
                fmt::format("node {} has {} outputs, its sub-graph {}", quote(display_name(if_node)),
                            if_node.outputs.size(), branch.outputs.size()));
  GraphProto out;
  out.name = branch.name;
  out.nodes = branch.nodes;
  out.initializers = branch.initializers;
  out.sparse_initializers = branch.sparse_initializers;
  out.value_infos = branch.value_infos;
  out.value_infos.insert(out.value_infos.end(), branch.outputs.begin(), branch.outputs.end());
  Renames names;
  const auto define = [&](const std::string& name) {
    if (!name.empty()) names[name] = prefix + name;
  };
  for (const TensorProto& tensor : out.initializers) define(tensor.name);
  for (const SparseTensorProto& tensor : out.sparse_initializers) define(tensor.values.name);
  for (const NodeProto& node : out.nodes)
    for (const std::string& output : node.outputs) define(output);
  for (TensorProto& tensor : out.initializers) rename(tensor.name, names);
  for (SparseTensorProto& tensor : out.sparse_initializers) rename(tensor.values.name, names);
  for (ValueInfoProto& value : out.value_infos) rename(value.name, names);
  for (NodeProto& node : out.nodes) rename(node, names);
  for (size_t o = 0; o < if_node.outputs.size(); ++o) {
    if (if_node.outputs[o].empty()) continue;
    NodeProto identity;
    identity.op_type = "Identity";
    identity.inputs = {branch.outputs[o].name};
    rename(identity.inputs[0], names);
    identity.outputs = {if_node.outputs[o]};
    out.nodes.push_back(std::move(identity));
  }
  out.nodes.insert(out.nodes.end(), nodes.begin() + 1, nodes.end());
  return out;
}

bool is_visible_below(const Scope& scope, const std::string& prefix) {
  const auto below = [&](const auto& entry) { return entry.first.starts_with(prefix); };
  for (const Scope* s = &scope; s; s = s->outer)
    if (std::any_of(s->values.begin(), s->values.end(), below) ||
        std::any_of(s->initializers.begin(), s->initializers.end(), below))
      return true;
  return false;
}

class Cases {
 public:
  Cases(NodeImporter& importer, const std::vector<NodeProto>& nodes, const std::vector<std::string>& results,
        Scope& scope)
      : importer_(importer), nodes_(nodes), scope_(scope), source_(shortened(scope.prefix + display_name(nodes[0]))) {
    std::set<std::string> defined;
    for (const NodeProto& node : nodes) defined.insert(node.outputs.begin(), node.outputs.end());
    for (const std::string& name : results)
      if (defined.contains(name) && std::find(results_.begin(), results_.end(), name) == results_.end())
        results_.push_back(name);
    do {
      prefix_ = importer.unique_prefix(source_);
    } while (is_visible_below(scope, prefix_));
  }

  void add() {
    if (results_.empty()) return;
    condition_ = *importer_.find(nodes_[0].inputs.at(0), scope_);
    if (const auto known = scope_.target->constants.find(condition_).tensor)
      return give(here(known->as<uint8_t>()[0] != 0));
    std::optional<Error> refused;
    // The case in which nothing is squeezed is the one that usually fails, and soon.
    std::optional<Body> no = body(false, refused);
    if (!no) return give(checked(true, *refused));
    std::optional<Body> yes = body(true, refused);
    if (!yes) return give(checked(false, *refused));
    for (size_t o = 0; o < results_.size(); ++o) {
      const TensorType& a = yes->graph.type(yes->graph.outputs[o]);
      const TensorType& b = no->graph.type(no->graph.outputs[o]);
      if (a.dtype == b.dtype && a.shape.size() != b.shape.size())
        throw RanksDiffer{
            fmt::format("node {} (If) decides the rank of {}: {} in one branch and {} in the other; where "
                        "that is a result of the model or of a loop, it is not supported",
                        quote(source_), quote(results_[o]), to_string(a), to_string(b))};
    }
    Branches branches = join_branches(condition_, std::move(*yes), std::move(*no), graph());
    std::vector<std::string> names;
    for (const std::string& result : results_) names.push_back(scope_.prefix + result);
    try {
      give(graph().add_node(ops::If{}, std::move(branches.inputs), names, {source_}, std::move(branches.bodies)));
    } catch (const Error& e) {  // names the node
      throw NodeError(e.code(), e.what());
    }
  }

 private:
  Graph& graph() { return scope_.target->graph; }

  void give(const Values& values) {
    for (size_t o = 0; o < results_.size(); ++o) scope_.values[results_[o]] = values[o];
  }

  /// What the nodes compute in one case, in `scope`, whose outer scope is that of the nodes.
  Values convert(bool taken, Scope& scope) {
    const std::string label = taken ? "then_branch" : "else_branch";
    const AttributeProto* attribute = nodes_[0].find_attribute(label);
    if (!attribute || attribute->type != AttributeType::graph)
      throw NodeError(ErrorCode::invalid_model,
                      fmt::format("node {} (If): it has no sub-graph '{}'", quote(source_), label));
    const GraphProto nodes = with_branch(attribute->graphs.at(0), nodes_, scope.prefix);
    const Dims dims(graph().shape(condition_).size(), 1);
    scope.outer = &scope_;
    scope.declared = scope_.declared;
    scope.values[nodes_[0].inputs[0]] =
        scope.target->graph.add_constant(prefix_ + "condition", Tensor::scalar(DType::boolean, taken).reshaped(dims));
    const NodeImporter::Case counted(importer_, nodes.nodes.size());
    importer_.add_initializers(nodes, scope);
    importer_.add_nodes(nodes.nodes, results_, scope);
    Values outputs;
    for (const std::string& result : results_) {
      if (NodeImporter::is_lost(result, scope)) throw BodyRefused();
      outputs.push_back(*importer_.find(result, scope));
    }
    return outputs;
  }

  std::string case_prefix(bool taken) const { return prefix_ + (taken ? "then/" : "else/"); }

  /// One case as a graph of its own; none, and why, when it is not a valid model.
  std::optional<Body> body(bool taken, std::optional<Error>& refused) {
    GraphUnderConstruction target(scope_.target->tensors, scope_.target->named);
    target.graph.name = prefix_ + (taken ? "then" : "else");
    Scope scope(*scope_.opsets, target, case_prefix(taken));
    try {
      const Values outputs = convert(taken, scope);
      for (size_t o = 0; o < outputs.size(); ++o) target.graph.add_output(results_[o], outputs[o]);
    } catch (const Error& e) {
      if (e.code() != ErrorCode::invalid_model) throw;
      refused = e;
      return std::nullopt;
    }
    return finished_body(target, scope, 0);
  }

  /// One case in the graph of the nodes.
  Values here(bool taken) {
    Scope scope(*scope_.opsets, *scope_.target, case_prefix(taken));
    return convert(taken, scope);
  }

  Values checked(bool taken, const Error& otherwise) {
    const std::string message =
        fmt::format("the model is valid only where the condition of node {} (If) is {}; else, {}", quote(source_),
                    taken, otherwise.what());
    Values out;
    for (const ValueId value : here(taken))
      out.push_back(graph().add(ops::Check{taken, message}, {condition_, value}, graph().value(value).name, {source_}));
    return out;
  }

  NodeImporter& importer_;
  const std::vector<NodeProto>& nodes_;
  Scope& scope_;
  std::string source_;
  std::string prefix_;
  std::vector<std::string> results_;
  ValueId condition_ = no_value;
};

}  // namespace

void add_cases(NodeImporter& importer, const std::vector<NodeProto>& nodes, const std::vector<std::string>& results,
               Scope& scope) {
  try {
    Cases(importer, nodes, results, scope).add();
  } catch (const BodyRefused&) {
    // Its nodes are reported; nothing else is left that could depend on them, but what the graph gives.
    for (const NodeProto& node : nodes) scope.lost.insert(node.outputs.begin(), node.outputs.end());
  }
}

}  // namespace camshaft::onnx
