#include "ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/container_type.h"
#include "ir/describe_node.h"
#include "ir/limits.h"
#include "ir/ops/plugin.h"
#include "ir/plugin.h"
#include "ir/replaceable.h"

namespace camshaft {

namespace {

constexpr int64_t max_content_elements = 4096;

}  // namespace

std::string describe_node(const std::vector<std::string>& sources, const Op& op) {
  const auto* plugin = op.as<ops::Plugin>();
  const std::string name = plugin ? fmt::format("operator '{}' of the plugin {}", plugin->operator_name, plugin->file)
                                  : fmt::format("operator '{}'", op.name());
  return sources.empty() ? name : fmt::format("node '{}' ({})", sources.front(), name);
}

std::string Graph::unique_name(const std::string& base) {
  std::string stem = base.empty() ? "v" : base;
  const auto taken = names_.find(stem);
  if (taken == names_.end()) return stem;
  std::string name;
  do {
    name = fmt::format("{}_{}", stem, taken->second++);
  } while (names_.count(name) != 0);
  return name;
}

void Graph::rename(ValueId id, const std::string& base) {
  if (value(id).name == base) return;
  std::string name = unique_name(base);
  names_.erase(value(id).name);
  names_.emplace(name, 1);
  value(id).name = std::move(name);
}

void Graph::add_output(const std::string& output_name, ValueId id) {
  outputs.push_back(id);
  output_names.push_back(output_name);
}

ValueId Graph::add_input(const std::string& name, TensorType type) {
  if (const std::string what = too_large(type); !what.empty())
    throw Error(ErrorCode::invalid_model, fmt::format("the input '{}' is {}", name, what));
  if (is_container(type.dtype))
    if (const std::string wrong = malformed(type); !wrong.empty())
      throw Error(ErrorCode::invalid_model, fmt::format("the input '{}' is a container, but {}", name, wrong));
  const auto id = static_cast<ValueId>(values.size());
  values.push_back({unique_name(name), std::move(type), nullptr, std::nullopt});
  names_.emplace(values.back().name, 1);
  inputs.push_back(id);
  return id;
}

ValueId Graph::add_constant(const std::string& name, Tensor tensor) {
  return add_constant(name, literal(std::move(tensor)));
}

ValueId Graph::add_constant(const std::string& name, Constant constant) {
  const auto id = static_cast<ValueId>(values.size());
  const Tensor& tensor = *constant.tensor;
  TensorType type{tensor.dtype(), Shape(tensor.dims().begin(), tensor.dims().end())};
  auto content = may_be_replaced_as_integers(constant.provenance) ? std::nullopt : constant_content(tensor);
  if (content) fix_numbers(constant.provenance, "integers that sizes may be made of");
  values.push_back({unique_name(name), std::move(type), std::move(constant.tensor), std::move(content),
                    std::move(constant.provenance)});
  names_.emplace(values.back().name, 1);
  return id;
}

std::vector<ValueId> Graph::add_node(Op op, std::vector<ValueId> node_inputs, const std::vector<std::string>& names,
                                     std::vector<std::string> sources, std::vector<Graph> bodies) {
  std::vector<ValueId> ids;
  for (const std::string& n : names) {
    ids.push_back(static_cast<ValueId>(values.size()));
    values.push_back({unique_name(n), {}, nullptr, std::nullopt});
    names_.emplace(values.back().name, 1);
  }
  Node node{std::move(op), std::move(node_inputs), ids, std::move(bodies), std::move(sources)};
  std::vector<Inferred> inferred;
  try {
    inferred = infer(*this, node);
  } catch (...) {
    for (size_t i = 0; i < ids.size(); ++i) {
      names_.erase(values.back().name);
      values.pop_back();
    }
    throw;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    value(ids[i]).type = std::move(inferred[i].type);
    value(ids[i]).content = std::move(inferred[i].content);
  }
  nodes.push_back(std::move(node));
  return ids;
}

ValueId Graph::add(Op op, std::vector<ValueId> node_inputs, const std::string& name, std::vector<std::string> sources) {
  return add_node(std::move(op), std::move(node_inputs), {name}, std::move(sources))[0];
}

// The sizes that are not known can only make it worse, or 0.
std::string too_large(const TensorType& type) {
  if (type.shape.size() > static_cast<size_t>(most_axes))
    return fmt::format("a tensor of {} axes; at most {} are possible", type.shape.size(), most_axes);
  int64_t count = 1;
  for (const Dim& d : type.shape) {
    const auto size = d.as_constant();
    if (!size || *size == 0) continue;
    if (__builtin_mul_overflow(count, *size, &count) || count > most_tensor_elements)
      return to_string(type) + ", larger than any memory";
  }
  return "";
}

namespace {

// A list of as many elements as the type has, for certain. A shape rule may see other numbers of them where sizes are
// expressions or data: contents are indexed by what types say.
bool fits(const std::vector<Dim>& content, const Shape& shape) {
  if (shape.empty()) return content.size() == 1;
  return shape.size() == 1 && shape[0].as_constant() == static_cast<int64_t>(content.size());
}

}  // namespace

std::vector<Inferred> infer(const Graph& graph, const Node& node) {
  std::vector<const Value*> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(id == no_value ? nullptr : &graph.value(id));
  std::vector<std::string> names;
  for (const ValueId id : node.outputs) names.push_back(graph.value(id).name);
  const size_t outputs = names.size();
  try {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] && is_container(inputs[i]->type.dtype) && !node.op.takes_containers())
        throw Error(ErrorCode::invalid_model, fmt::format("input {} must be a tensor", i));
    std::vector<Inferred> result = node.op.infer(InferContext(std::move(inputs), std::move(names), &node.bodies));
    if (result.size() < outputs)
      throw Error(ErrorCode::invalid_model, fmt::format("it has {} outputs, {} are asked for", result.size(), outputs));
    result.resize(outputs);
    const auto is_negative = [](const Dim& d) { return d.is_constant() && d.value() < 0; };
    for (const Inferred& r : result)
      if ((is_container(r.type.dtype) && !malformed(r.type).empty()) ||
          std::any_of(r.type.shape.begin(), r.type.shape.end(), is_negative))
        throw Error(ErrorCode::invalid_model, fmt::format("its result would be {}", to_string(r.type)));
      else if (const std::string what = too_large(r.type); !what.empty())
        throw Error(ErrorCode::invalid_model, "its result is " + what);
    for (Inferred& r : result)
      if (r.content && !fits(*r.content, r.type.shape)) r.content.reset();
    return result;
  } catch (const MissingPlugin&) {
    throw;
  } catch (const Error& e) {
    std::string types;
    for (const ValueId id : node.inputs)
      types += (types.empty() ? "" : ", ") + (id == no_value ? "-" : to_string(graph.type(id)));
    throw Error(e.code() == ErrorCode::invalid_argument ? ErrorCode::invalid_model : e.code(),
                fmt::format("{} on inputs ({}): {}", describe_node(node.sources, node.op), types, e.what()));
  }
}

std::optional<std::vector<Dim>> constant_content(const Tensor& tensor) {
  if (tensor.rank() > 1 || tensor.size() > max_content_elements) return std::nullopt;
  if (!is_integer(tensor.dtype()) && tensor.dtype() != DType::boolean) return std::nullopt;
  if (tensor.dtype() == DType::u64) return std::nullopt;  // may exceed int64
  const std::vector<int64_t> ints = tensor.to_ints();
  return std::vector<Dim>(ints.begin(), ints.end());
}

Uses::Uses(const Graph& graph)
    : readers(graph.values.size()), producer(graph.values.size(), -1), is_output(graph.values.size(), false) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const ValueId id : graph.nodes[n].inputs)
      if (id != no_value) readers[static_cast<size_t>(id)].push_back(static_cast<int32_t>(n));
    for (const ValueId id : graph.nodes[n].outputs) producer[static_cast<size_t>(id)] = static_cast<int32_t>(n);
  }
  for (const ValueId id : graph.outputs) is_output[static_cast<size_t>(id)] = true;
}

namespace {

// Marks what live values are made of: returns the nodes that stay.
std::vector<bool> spread_liveness(const Graph& graph, std::vector<bool>& live) {
  std::vector<bool> keep(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    keep[n] = std::any_of(node.outputs.begin(), node.outputs.end(),
                          [&](ValueId id) { return live[static_cast<size_t>(id)]; });
    if (!keep[n]) continue;
    for (const ValueId id : node.inputs)
      if (id != no_value) live[static_cast<size_t>(id)] = true;
    for (const ValueId id : node.outputs) live[static_cast<size_t>(id)] = true;
  }
  return keep;
}

void collect_symbols(const Shape& shape, std::vector<std::string>& names) {
  for (const Dim& d : shape)
    if (!d.is_constant()) d.collect_symbols(names);
}

void collect_symbols(const Graph& graph, const Node& node, std::vector<std::string>& names) {
  for (const ValueId id : node.outputs) collect_symbols(graph.shape(id), names);
  for (const auto& [name, field] : node.op.fields()) {
    if (const auto* d = std::get_if<Dim>(&field)) d->collect_symbols(names);
    if (const auto* shape = std::get_if<Shape>(&field)) collect_symbols(*shape, names);
  }
  for (const Graph& body : node.bodies) {
    for (const Node& inner : body.nodes) collect_symbols(body, inner, names);
    for (const ValueId id : body.inputs) collect_symbols(body.shape(id), names);
  }
}

// The symbols that are bound when the node has run: sizes that only running tells are named after the value.
std::vector<std::string> bound_by(const Graph& graph, const Node& node) {
  std::vector<std::string> bound;
  for (const ValueId id : node.outputs) {
    std::vector<std::string> names;
    collect_symbols(graph.shape(id), names);
    for (std::string& name : names)
      if (name.starts_with("@" + graph.value(id).name + ".")) bound.push_back(std::move(name));
  }
  return bound;
}

// Nodes whose values nobody reads, and whose sizes somebody needs: makes their outputs live. False when there are none.
bool revive_binders(const Graph& graph, const std::vector<bool>& keep, std::vector<bool>& live) {
  std::unordered_map<std::string, size_t> binders;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (keep[n]) continue;
    for (std::string& name : bound_by(graph, graph.nodes[n])) binders.emplace(std::move(name), n);
  }
  if (binders.empty()) return false;
  std::vector<std::string> needed;
  for (const ValueId id : graph.outputs) collect_symbols(graph.shape(id), needed);
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (keep[n]) collect_symbols(graph, graph.nodes[n], needed);
  bool revived = false;
  for (const std::string& name : needed) {
    const auto it = binders.find(name);
    if (it == binders.end()) continue;
    for (const ValueId id : graph.nodes[it->second].outputs) live[static_cast<size_t>(id)] = true;
    revived = true;
  }
  return revived;
}

}  // namespace

// A node also stays when a size that only it tells stands in a type or a field of a node that stays.
void remove_dead(Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  for (const ValueId id : graph.inputs) live[static_cast<size_t>(id)] = true;
  for (const ValueId id : graph.outputs) live[static_cast<size_t>(id)] = true;
  std::vector<bool> keep = spread_liveness(graph, live);
  while (revive_binders(graph, keep, live)) keep = spread_liveness(graph, live);
  std::vector<Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (keep[n]) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);

  std::vector<ValueId> renumber(graph.values.size(), no_value);
  std::vector<Value> values;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (!live[v]) continue;
    renumber[v] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[v]));
  }
  graph.values = std::move(values);
  const auto apply = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids)
      if (id != no_value) id = renumber[static_cast<size_t>(id)];
  };
  apply(graph.inputs);
  apply(graph.outputs);
  for (Node& node : graph.nodes) {
    apply(node.inputs);
    apply(node.outputs);
  }
}

bool equal(const Graph& a, const Graph& b) {
  if (a.nodes.size() != b.nodes.size() || a.inputs.size() != b.inputs.size() || a.output_names != b.output_names)
    return false;
  std::vector<ValueId> match(a.values.size(), no_value);  // a's value -> b's
  const auto same = [&](ValueId x, ValueId y) {
    if (x == no_value || y == no_value) return x == y;
    const Value& va = a.value(x);
    const Value& vb = b.value(y);
    if ((va.constant == nullptr) != (vb.constant == nullptr)) return false;
    if (va.constant) return va.constant == vb.constant || *va.constant == *vb.constant;
    return match[static_cast<size_t>(x)] == y;
  };
  const auto same_all = [&](const std::vector<ValueId>& x, const std::vector<ValueId>& y) {
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i)
      if (!same(x[i], y[i])) return false;
    return true;
  };
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if (a.value(a.inputs[i]).name != b.value(b.inputs[i]).name || a.type(a.inputs[i]) != b.type(b.inputs[i]))
      return false;
    match[static_cast<size_t>(a.inputs[i])] = b.inputs[i];
  }
  for (size_t n = 0; n < a.nodes.size(); ++n) {
    const Node& x = a.nodes[n];
    const Node& y = b.nodes[n];
    if (!(x.op == y.op) || !same_all(x.inputs, y.inputs) || x.outputs.size() != y.outputs.size() ||
        x.bodies.size() != y.bodies.size())
      return false;
    for (size_t i = 0; i < x.bodies.size(); ++i)
      if (!equal(x.bodies[i], y.bodies[i])) return false;
    for (size_t i = 0; i < x.outputs.size(); ++i) {
      if (a.type(x.outputs[i]) != b.type(y.outputs[i])) return false;
      match[static_cast<size_t>(x.outputs[i])] = y.outputs[i];
    }
  }
  return same_all(a.outputs, b.outputs);
}

}  // namespace camshaft
