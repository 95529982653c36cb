#include "ir/region_editor.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/region.h"

namespace camshaft {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::internal, what);
}

}  // namespace

RegionEditor::RegionEditor(Graph& graph, ops::RegionKind kind) : graph_(graph), kind_(kind) {}

RegionEditor::RegionEditor(Graph& graph, Node region) : graph_(graph), kind_(ops::RegionKind::opaque) {
  const auto* op = region.op.as<ops::Region>();
  if (!op || region.bodies.size() != 1) fail(fmt::format("'{}' is edited as a region and is none", region.op.name()));
  kind_ = op->kind;
  sources_ = std::move(region.sources);
  body_ = std::move(region.bodies[0]);
  operands_ = std::move(region.inputs);
  for (const ValueId id : region.outputs) results_.push_back({id, {}});
}

RegionEditor RegionEditor::around(Graph& graph, const Node& node, ops::RegionKind kind) {
  if (node.op.as<ops::Region>()) return RegionEditor(graph, node);
  RegionEditor made(graph, kind);
  std::map<ValueId, ValueId> there;
  for (const ValueId id : node.inputs)
    if (id != no_value) there[id] = made.add_operand(id);
  const std::vector<ValueId> outputs = made.copy_node(graph, node, there);
  for (size_t o = 0; o < outputs.size(); ++o) made.add_result(node.outputs[o], outputs[o]);
  made.sources_ = node.sources;
  return made;
}

// --- operands ---

size_t RegionEditor::operand_index(ValueId outer) const {
  const auto at = std::find(operands_.begin(), operands_.end(), outer);
  if (at == operands_.end())
    fail(fmt::format("'{}' is no operand of the region", outer == no_value ? "-" : graph_.value(outer).name));
  return static_cast<size_t>(at - operands_.begin());
}

ValueId RegionEditor::outer(ValueId inner) const {
  const int32_t index = input_index(body_, inner);
  return index < 0 ? no_value : operands_[static_cast<size_t>(index)];
}

ValueId RegionEditor::inner(ValueId outer) const {
  const auto at = std::find(operands_.begin(), operands_.end(), outer);
  return at == operands_.end() ? no_value : body_.inputs[static_cast<size_t>(at - operands_.begin())];
}

ValueId RegionEditor::add_operand(ValueId outer, const std::string& name) {
  if (outer == no_value) fail("an operand of a region is missing: what its body reads has to be a value");
  if (const ValueId known = inner(outer); known != no_value) return known;
  operands_.push_back(outer);
  return body_.add_input(name.empty() ? graph_.value(outer).name : name, graph_.type(outer));
}

void RegionEditor::replace_operand(ValueId outer, ValueId now) {
  if (outer == now) return;
  for (size_t i = operand_index(outer); i < operands_.size(); ++i) {
    if (operands_[i] != outer) continue;
    operands_[i] = now;
    body_.rename(body_.inputs[i], graph_.value(now).name);
  }
  take_operand_types();
}

void RegionEditor::drop_operand(ValueId outer) {
  const size_t index = operand_index(outer);
  const ValueId input = body_.inputs[index];
  const bool is_read =
      std::any_of(body_.nodes.begin(), body_.nodes.end(), [&](const Node& n) { return reads(n, input); }) ||
      std::find(body_.outputs.begin(), body_.outputs.end(), input) != body_.outputs.end();
  if (is_read) fail(fmt::format("the body of a region still reads the operand '{}'", graph_.value(outer).name));
  operands_.erase(operands_.begin() + static_cast<std::ptrdiff_t>(index));
  body_.inputs.erase(body_.inputs.begin() + static_cast<std::ptrdiff_t>(index));
  dropped_ = true;
}

// The types of the body's inputs are those that stand around it now.
void RegionEditor::take_operand_types() {
  for (size_t i = 0; i < operands_.size(); ++i) {
    Value& input = body_.value(body_.inputs[i]);
    if (input.type == graph_.type(operands_[i])) continue;
    input.type = graph_.type(operands_[i]);
    changed_ = true;
  }
}

// --- nodes ---

std::vector<ValueId> RegionEditor::add_node(Op op, std::vector<ValueId> inputs, const std::vector<std::string>& names,
                                            std::vector<std::string> sources, std::vector<Graph> bodies) {
  infer_again();
  return body_.add_node(std::move(op), std::move(inputs), names, std::move(sources), std::move(bodies));
}

ValueId RegionEditor::add(Op op, std::vector<ValueId> inputs, const std::string& name,
                          std::vector<std::string> sources) {
  return add_node(std::move(op), std::move(inputs), {name}, std::move(sources))[0];
}

ValueId RegionEditor::add_constant(const std::string& name, Tensor tensor) {
  return body_.add_constant(name, std::move(tensor));
}

ValueId RegionEditor::add_constant(const std::string& name, Constant constant) {
  return body_.add_constant(name, std::move(constant));
}

std::vector<ValueId> RegionEditor::copy_node(const Graph& from, const Node& node, std::map<ValueId, ValueId>& there) {
  std::vector<ValueId> inputs;
  for (const ValueId id : node.inputs) {
    if (id != no_value && !there.contains(id)) {
      if (!from.is_constant(id)) fail(fmt::format("a region is to read '{}', which it has not", from.value(id).name));
      there[id] = add_constant(from.value(id).name, from.constant(id));
    }
    inputs.push_back(id == no_value ? no_value : there.at(id));
  }
  std::vector<std::string> names;
  for (const ValueId id : node.outputs) names.push_back(from.value(id).name);
  const std::vector<ValueId> outputs = add_node(node.op, std::move(inputs), names, node.sources, node.bodies);
  for (size_t o = 0; o < outputs.size(); ++o) there[node.outputs[o]] = outputs[o];
  return outputs;
}

ValueId RegionEditor::prepend(Op op, ValueId input, const std::string& name) {
  if (input_index(body_, input) < 0) fail("a node is put before a region's others that reads what they compute");
  const ValueId result = body_.add(std::move(op), {input}, name);
  std::rotate(body_.nodes.begin(), body_.nodes.end() - 1, body_.nodes.end());
  for (size_t n = 1; n < body_.nodes.size(); ++n)
    std::replace(body_.nodes[n].inputs.begin(), body_.nodes[n].inputs.end(), input, result);
  std::replace(body_.outputs.begin(), body_.outputs.end(), input, result);
  changed_ = true;
  return result;
}

void RegionEditor::set_operator(size_t n, Op op) {
  body_.nodes.at(n).op = std::move(op);
  changed_ = true;
}

void RegionEditor::remove_dead() {
  camshaft::remove_dead(body_);
}

// Operands of regions within the region (a chain's parts) may have changed too: these are edited in turn.
void RegionEditor::infer_again() {
  if (!changed_) return;
  changed_ = false;
  for (Node& node : body_.nodes) {
    if (node.op.as<ops::Region>()) node = RegionEditor(body_, std::move(node)).finish();
    std::vector<Inferred> inferred = infer(body_, node);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      body_.value(node.outputs[o]).type = std::move(inferred[o].type);
      body_.value(node.outputs[o]).content = std::move(inferred[o].content);
    }
  }
}

// --- results ---

size_t RegionEditor::result_index(ValueId outer) const {
  const auto at = std::find_if(results_.begin(), results_.end(), [&](const Result& r) { return r.outer == outer; });
  if (outer == no_value || at == results_.end())
    fail(fmt::format("'{}' is no result of the region", outer == no_value ? "-" : graph_.value(outer).name));
  return static_cast<size_t>(at - results_.begin());
}

ValueId RegionEditor::inner_result(ValueId outer) const {
  for (size_t o = 0; o < results_.size(); ++o)
    if (outer != no_value && results_[o].outer == outer) return body_.outputs[o];
  return no_value;
}

void RegionEditor::add_result(ValueId outer, ValueId inner, const std::string& name) {
  results_.push_back({outer, {}});
  body_.add_output(name.empty() ? graph_.value(outer).name : name, inner);
}

void RegionEditor::add_new_result(const std::string& outer_name, ValueId inner, const std::string& name) {
  results_.push_back({no_value, outer_name});
  body_.add_output(name.empty() ? outer_name : name, inner);
}

void RegionEditor::replace_result(ValueId outer, ValueId inner) {
  body_.outputs[result_index(outer)] = inner;
}

void RegionEditor::move_result(ValueId outer, ValueId now) {
  const size_t index = result_index(outer);
  results_[index].outer = now;
  body_.output_names[index] = graph_.value(now).name;
}

void RegionEditor::renew_results() {
  for (Result& result : results_)
    if (result.outer != no_value) result = {no_value, graph_.value(result.outer).name};
}

void RegionEditor::drop_result(ValueId outer) {
  const auto index = static_cast<std::ptrdiff_t>(result_index(outer));
  if (results_.size() == 1) fail(fmt::format("'{}' is the only result of the region", graph_.value(outer).name));
  results_.erase(results_.begin() + index);
  body_.outputs.erase(body_.outputs.begin() + index);
  body_.output_names.erase(body_.output_names.begin() + index);
  dropped_ = true;
}

// --- the node ---

Node RegionEditor::finish() {
  if (results_.empty()) fail("a region gives no result");
  take_operand_types();
  infer_again();
  if (dropped_) remove_dead();
  std::vector<ValueId> outputs;
  for (size_t o = 0; o < results_.size(); ++o) {
    const Value& inner = body_.value(body_.outputs[o]);
    ValueId outer = results_[o].outer;
    if (outer == no_value) {
      outer = static_cast<ValueId>(graph_.values.size());
      graph_.values.push_back({"", inner.type, nullptr, inner.content});
      graph_.rename(outer, results_[o].name.empty() ? "v" : results_[o].name);
    } else if (graph_.type(outer) != inner.type) {
      graph_.value(outer).type = inner.type;
      graph_.value(outer).content = inner.content;
    }
    outputs.push_back(outer);
  }
  Node node{ops::Region{kind_}, std::move(operands_), std::move(outputs), {}, std::move(sources_)};
  node.bodies.push_back(std::move(body_));
  return node;
}

std::vector<ValueId> RegionEditor::append() {
  graph_.nodes.push_back(finish());
  return graph_.nodes.back().outputs;
}

}  // namespace camshaft
