#include "onnx/subgraphs.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/symbols.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

// A loop's body is converted up to four times, so one inside another up to four times as often.
constexpr int most_subgraph_depth = 8;

// Makes the inputs of a branch those of both: `captures` in this order.
void take_inputs(Body& body, const Values& captures, const Graph& around) {
  std::vector<ValueId> inputs;
  for (const ValueId id : captures) {
    const auto it = std::find(body.captures.begin(), body.captures.end(), id);
    inputs.push_back(it != body.captures.end() ? body.graph.inputs[static_cast<size_t>(it - body.captures.begin())]
                                               : body.graph.add_input(around.value(id).name, around.value(id).type));
  }
  body.graph.inputs = std::move(inputs);
}

// Captures that shape arithmetic alone has read are not needed any more. Those with sizes that only running tells are
// kept: as inputs they make sure that the sizes are known when the body runs.
void drop_unused_captures(Body& body, size_t own_inputs) {
  const Uses uses(body.graph);
  std::vector<ValueId> inputs(body.graph.inputs.begin(),
                              body.graph.inputs.begin() + static_cast<std::ptrdiff_t>(own_inputs));
  Values captures;
  for (size_t i = 0; i < body.captures.size(); ++i) {
    const ValueId id = body.graph.inputs[own_inputs + i];
    const auto v = static_cast<size_t>(id);
    if (uses.readers[v].empty() && !uses.is_output[v] && !names_run_time_sizes(body.graph.shape(id))) continue;
    inputs.push_back(id);
    captures.push_back(body.captures[i]);
  }
  body.graph.inputs = std::move(inputs);
  body.captures = std::move(captures);
  remove_dead(body.graph);
}

void check_input_count(const GraphProto& subgraph, size_t needed) {
  if (subgraph.inputs.size() != needed)
    throw Error(ErrorCode::invalid_model, fmt::format("sub-graph {} has {} inputs, {} are needed", quote(subgraph.name),
                                                      subgraph.inputs.size(), needed));
}

// Conversions that are given up by an exception are tried again in another way.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(++depth) {}
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace

Body finished_body(GraphUnderConstruction& target, Scope& scope, size_t own_inputs) {
  remove_dead(target.graph);
  Body body{std::move(target.graph), std::move(scope.captures)};
  drop_unused_captures(body, own_inputs);
  return body;
}

Branches join_branches(ValueId condition, Body yes, Body no, const Graph& around) {
  Branches out;
  out.inputs = yes.captures;
  for (const ValueId id : no.captures)
    if (std::find(out.inputs.begin(), out.inputs.end(), id) == out.inputs.end()) out.inputs.push_back(id);
  take_inputs(yes, out.inputs, around);
  take_inputs(no, out.inputs, around);
  out.inputs.insert(out.inputs.begin(), condition);
  out.bodies.push_back(std::move(yes.graph));
  out.bodies.push_back(std::move(no.graph));
  return out;
}

const std::string& ScopedSubgraphs::prefix() {
  if (prefix_.empty()) prefix_ = importer_.unique_prefix(source_);
  return prefix_;
}

Dim ScopedSubgraphs::fresh(const GraphProto& subgraph, const std::string& label, size_t input, size_t axis) {
  return Dim::symbol(fmt::format("@{}{}/{}.{}", prefix(), label, subgraph.inputs.at(input).name, axis));
}

Values ScopedSubgraphs::convert(const GraphProto& subgraph, Scope& scope) {
  if (importer_.depth >= most_subgraph_depth)
    throw Error(ErrorCode::unsupported, fmt::format("its sub-graphs are nested deeper than {}", most_subgraph_depth));
  scope.outer = &around_;
  importer_.add_initializers(subgraph, scope);
  std::vector<std::string> results;
  for (const ValueInfoProto& output : subgraph.outputs) results.push_back(output.name);
  const Deeper deeper(importer_.depth);
  importer_.add_nodes(subgraph.nodes, results, scope);
  Values outputs;
  for (const ValueInfoProto& output : subgraph.outputs) {
    if (NodeImporter::is_lost(output.name, scope)) throw BodyRefused();
    const auto id = importer_.find(output.name, scope);
    if (!id)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("sub-graph {} does not compute its output {}", quote(subgraph.name), quote(output.name)));
    outputs.push_back(*id);
  }
  return outputs;
}

Body ScopedSubgraphs::import(const GraphProto& subgraph, const std::string& label,
                             const std::vector<TensorType>& inputs) {
  check_input_count(subgraph, inputs.size());
  GraphUnderConstruction target(around_.target->tensors, around_.target->named);
  target.graph.name = prefix() + label;
  Scope scope(*around_.opsets, target, target.graph.name + "/");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = subgraph.inputs[i].name;
    if (!scope.values.emplace(name, target.graph.add_input(scope.prefix + name, inputs[i])).second)
      throw Error(ErrorCode::invalid_model,
                  fmt::format("sub-graph {} lists its input {} twice", quote(subgraph.name), quote(name)));
  }
  const Values outputs = convert(subgraph, scope);
  for (size_t o = 0; o < outputs.size(); ++o) target.graph.add_output(subgraph.outputs[o].name, outputs[o]);
  return finished_body(target, scope, inputs.size());
}

Values ScopedSubgraphs::inlined(const GraphProto& subgraph, const Values& inputs) {
  check_input_count(subgraph, inputs.size());
  Scope scope(*around_.opsets, *around_.target, prefix());
  for (size_t i = 0; i < inputs.size(); ++i) scope.values[subgraph.inputs[i].name] = inputs[i];
  return convert(subgraph, scope);
}

}  // namespace camshaft::onnx
