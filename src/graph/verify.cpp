#include "graph/verify.h"

#include <fmt/format.h>

#include <unordered_set>

namespace camshaft {

namespace {

[[noreturn]] void fail(const std::string& after, const std::string& what) {
  throw Error(ErrorCode::internal, fmt::format("invalid graph after {}: {}", after, what));
}

}  // namespace

void verify(const Graph& graph, const std::string& after) {
  const size_t count = graph.values.size();
  std::vector<bool> defined(count, false);
  std::unordered_set<std::string> names;
  for (size_t v = 0; v < count; ++v) {
    const Value& value = graph.values[v];
    if (!names.insert(value.name).second) fail(after, fmt::format("two values are named '{}'", value.name));
    if (!value.constant) continue;
    defined[v] = true;
    const TensorType type{value.constant->dtype(), Shape(value.constant->dims().begin(), value.constant->dims().end())};
    if (type != value.type)
      fail(after,
           fmt::format("constant '{}' is {}, recorded as {}", value.name, to_string(type), to_string(value.type)));
  }
  const auto check_id = [&](ValueId id, const std::string& where) {
    if (id < 0 || static_cast<size_t>(id) >= count)
      fail(after, fmt::format("{} refers to value {} of {}", where, id, count));
  };
  const auto define = [&](ValueId id, const std::string& where) {
    check_id(id, where);
    if (defined[static_cast<size_t>(id)])
      fail(after, fmt::format("{} defines '{}' a second time", where, graph.value(id).name));
    defined[static_cast<size_t>(id)] = true;
  };
  for (const ValueId id : graph.inputs) define(id, "an input");
  for (const Node& node : graph.nodes) {
    const std::string where = fmt::format("node '{}'{}", to_string(node.op),
                                          node.sources.empty() ? "" : " from '" + node.sources.front() + "'");
    for (const ValueId id : node.inputs) {
      if (id == no_value) continue;
      check_id(id, where);
      if (!defined[static_cast<size_t>(id)])
        fail(after, fmt::format("{} reads '{}' before it is computed", where, graph.value(id).name));
    }
    for (const ValueId id : node.outputs) define(id, where);
    for (const Graph& body : node.bodies) verify(body, after);
    std::vector<Inferred> inferred;
    try {
      inferred = infer(graph, node);
    } catch (const Error& e) {
      fail(after, e.what());
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& value = graph.value(node.outputs[i]);
      if (inferred[i].type != value.type)
        fail(after, fmt::format("{} gives '{}' as {}, recorded as {}", where, value.name, to_string(inferred[i].type),
                                to_string(value.type)));
    }
  }
  if (graph.outputs.size() != graph.output_names.size()) fail(after, "outputs and their names differ in number");
  for (const ValueId id : graph.outputs) {
    check_id(id, "an output");
    if (!defined[static_cast<size_t>(id)])
      fail(after, fmt::format("output '{}' is never computed", graph.value(id).name));
  }
}

}  // namespace camshaft
