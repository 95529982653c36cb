#include "ort_provider/partition.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace camshaft::ort_provider {

namespace {

/// Looks into a graph by the names of its values.
class Names {
 public:
  explicit Names(const GraphFacts& facts) : facts_(facts) {
    const onnx::GraphProto& graph = facts.model.graph;
    for (const onnx::TensorProto& tensor : graph.initializers) constants_.emplace(tensor.name, &tensor);
    for (const onnx::ValueInfoProto& info : graph.value_infos) types_.emplace(info.name, &info);
    for (const onnx::ValueInfoProto& output : graph.outputs) needed_.insert(output.name);
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const std::string& output : graph.nodes[n].outputs)
        if (!output.empty()) producers_.emplace(output, n);
      for (const std::string& name : reads(n)) readers_[name].push_back(n);
    }
  }

  /// Without what is left out; what only sub-graphs read is last.
  std::vector<std::string> reads(size_t node) const {
    std::vector<std::string> names = facts_.model.graph.nodes[node].inputs;
    std::erase(names, "");
    names.insert(names.end(), facts_.captured[node].begin(), facts_.captured[node].end());
    return names;
  }
  const onnx::TensorProto* constant(const std::string& name) const {
    const auto it = constants_.find(name);
    return it == constants_.end() ? nullptr : it->second;
  }
  const onnx::ValueInfoProto* info(const std::string& name) const {
    const auto it = types_.find(name);
    return it == types_.end() ? nullptr : it->second;
  }
  /// -1 where no node of the graph computes it.
  int64_t producer(const std::string& name) const {
    const auto it = producers_.find(name);
    return it == producers_.end() ? -1 : static_cast<int64_t>(it->second);
  }
  /// Whether it is an output of the graph, or a node outside of the group reads it.
  bool is_needed(const std::string& name, const std::unordered_set<size_t>& group) const {
    if (needed_.contains(name)) return true;
    const auto it = readers_.find(name);
    return it != readers_.end() &&
           std::any_of(it->second.begin(), it->second.end(), [&](size_t node) { return !group.contains(node); });
  }
  bool is_tensor(const std::string& name) const {
    const onnx::ValueInfoProto* value = info(name);
    return value && value->type.kind == onnx::TypeProto::Kind::tensor;
  }

 private:
  const GraphFacts& facts_;
  std::unordered_map<std::string, const onnx::TensorProto*> constants_;
  std::unordered_map<std::string, const onnx::ValueInfoProto*> types_;
  std::unordered_map<std::string, size_t> producers_;
  std::unordered_map<std::string, std::vector<size_t>> readers_;
  std::unordered_set<std::string> needed_;
};

/// Nodes of one level are a group: a level is the number of times that a path to a node comes back from other nodes,
/// the largest over all paths. It never falls along a path, and rises where one comes back, so that none between two
/// nodes of a level leads through another node.
std::vector<Group> by_level(const Names& names, const std::vector<bool>& can) {
  std::vector<size_t> levels(can.size(), 0);
  std::map<size_t, Group> groups;
  for (size_t n = 0; n < can.size(); ++n) {
    for (const std::string& name : names.reads(n)) {
      const int64_t producer = names.producer(name);
      if (producer < 0) continue;
      const auto from = static_cast<size_t>(producer);
      levels[n] = std::max(levels[n], levels[from] + (can[n] && !can[from] ? 1 : 0));
    }
    if (can[n]) groups[levels[n]].push_back(n);
  }
  std::vector<Group> out;
  for (auto& [level, group] : groups) out.push_back(std::move(group));
  return out;
}

/// Whether ONNX Runtime can hand over to the group what the node reads, and on what it computes.
bool has_fitting_borders(const GraphFacts& facts, const Names& names, size_t node,
                         const std::unordered_set<size_t>& group, const std::unordered_set<std::string>& handed_over) {
  const onnx::NodeProto& proto = facts.model.graph.nodes[node];
  const auto is_inside = [&](const std::string& name) {
    const int64_t producer = names.producer(name);
    return names.constant(name) || (producer >= 0 && group.contains(static_cast<size_t>(producer)));
  };
  for (const std::string& input : proto.inputs)
    if (!input.empty() && !is_inside(input) && !(names.is_tensor(input) && names.info(input)->type.shape)) return false;
  for (const std::string& name : facts.captured[node])
    if (!is_inside(name) && !handed_over.contains(name)) return false;
  return std::all_of(proto.outputs.begin(), proto.outputs.end(), [&](const std::string& output) {
    return output.empty() || !names.is_needed(output, group) || names.is_tensor(output);
  });
}

}  // namespace

std::vector<Group> groups_of(const GraphFacts& facts, std::vector<bool>& can) {
  const Names names(facts);
  for (;;) {
    std::vector<Group> groups = by_level(names, can);
    bool all_fit = true;
    for (const Group& group : groups) {
      const std::unordered_set<size_t> members(group.begin(), group.end());
      std::unordered_set<std::string> handed_over;
      for (const size_t node : group)
        for (const std::string& input : facts.model.graph.nodes[node].inputs) handed_over.insert(input);
      for (const size_t node : group)
        if (!has_fitting_borders(facts, names, node, members, handed_over)) all_fit = can[node] = false;
    }
    if (all_fit) return groups;
  }
}

onnx::ModelProto model_of(const GraphFacts& facts, const Group& group) {
  const Names names(facts);
  const std::unordered_set<size_t> members(group.begin(), group.end());
  onnx::ModelProto model;
  model.file = facts.model.file;
  model.producer_name = facts.model.producer_name;
  model.ir_version = facts.model.ir_version;
  model.opsets = facts.model.opsets;
  model.graph.name = facts.model.graph.name;
  std::unordered_set<std::string> seen;
  for (const size_t node : group) {
    const onnx::NodeProto& proto = facts.model.graph.nodes[node];
    for (const std::string& name : names.reads(node)) {
      if (!seen.insert(name).second) continue;
      if (const onnx::TensorProto* constant = names.constant(name)) {
        model.graph.initializers.push_back(*constant);
      } else {
        model.graph.inputs.push_back(*names.info(name));
      }
    }
    for (const std::string& output : proto.outputs) {
      if (output.empty()) continue;
      seen.insert(output);
      const onnx::ValueInfoProto* info = names.info(output);
      if (names.is_needed(output, members)) {
        model.graph.outputs.push_back(info ? *info : onnx::ValueInfoProto{output, {}});
      } else if (info) {
        model.graph.value_infos.push_back(*info);
      }
    }
    model.graph.nodes.push_back(proto);
  }
  return model;
}

}  // namespace camshaft::ort_provider
