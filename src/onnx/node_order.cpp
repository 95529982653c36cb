#include "onnx/node_order.h"

#include <fmt/format.h>

#include <set>
#include <unordered_map>

#include "base/error.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

void visit_captures(const GraphProto& graph, std::set<std::string> defined,
                    const std::function<void(const std::string&)>& visit) {
  for (const ValueInfoProto& input : graph.inputs) defined.insert(input.name);
  for (const TensorProto& tensor : graph.initializers) defined.insert(tensor.name);
  for (const SparseTensorProto& tensor : graph.sparse_initializers) defined.insert(tensor.values.name);
  for (const NodeProto& node : graph.nodes) defined.insert(node.outputs.begin(), node.outputs.end());
  const auto outside = [&](const std::string& name) {
    if (!defined.contains(name)) visit(name);
  };
  for (const NodeProto& node : graph.nodes) for_each_read(node, outside);
  for (const ValueInfoProto& output : graph.outputs) outside(output.name);
}

}  // namespace

std::string display_name(const NodeProto& node) {
  if (!node.name.empty()) return node.name;
  for (const std::string& output : node.outputs)
    if (!output.empty()) return node.op_type + "(" + output + ")";
  return node.op_type;
}

std::string shortened(const std::string& name) {
  constexpr size_t longest = 1024;
  if (name.size() <= longest) return name;
  return name.substr(0, longest / 2) + "~" + name.substr(name.size() - longest / 2);
}

void for_each_read(const NodeProto& node, const std::function<void(const std::string&)>& visit) {
  for (const std::string& input : node.inputs)
    if (!input.empty()) visit(input);
  for (const AttributeProto& attribute : node.attributes)
    for (const GraphProto& graph : attribute.graphs) visit_captures(graph, {}, visit);
}

std::vector<size_t> topological_order(std::span<const NodeProto> nodes, const std::string& where) {
  std::unordered_map<std::string, size_t> producer;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (const std::string& output : nodes[n].outputs) {
      const auto [it, is_new] = producer.emplace(output, n);
      if (!output.empty() && !is_new)
        throw Error(ErrorCode::invalid_model,
                    fmt::format("{}: nodes {} and {} both define {}", where, quote(display_name(nodes[it->second])),
                                quote(display_name(nodes[n])), quote(output)));
    }
  }
  std::vector<std::vector<size_t>> before(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for_each_read(nodes[n], [&](const std::string& name) {
      const auto it = producer.find(name);
      if (it != producer.end()) before[n].push_back(it->second);
    });
  }
  enum class State : uint8_t { untouched, open, done };
  std::vector<State> state(nodes.size(), State::untouched);
  std::vector<size_t> order;
  std::vector<std::pair<size_t, size_t>> stack;  // node, how many of `before` are dealt with
  for (size_t root = 0; root < nodes.size(); ++root) {
    if (state[root] != State::untouched) continue;
    stack.emplace_back(root, 0);
    state[root] = State::open;
    while (!stack.empty()) {
      auto& [n, next] = stack.back();
      if (next == before[n].size()) {
        state[n] = State::done;
        order.push_back(n);
        stack.pop_back();
        continue;
      }
      const size_t other = before[n][next++];
      if (state[other] == State::open)
        throw Error(ErrorCode::invalid_model,
                    fmt::format("{}: node {} depends on its own output", where, quote(display_name(nodes[other]))));
      if (state[other] == State::untouched) {
        state[other] = State::open;
        stack.emplace_back(other, 0);
      }
    }
  }
  return order;
}

}  // namespace camshaft::onnx
