#include "compile/tune/problem.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/hash.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

std::string type_text(const TensorType& type, const SymbolBindings& symbols) {
  if (holds_objects(type.dtype)) return to_string(type);
  std::string dims;
  for (const Dim& d : type.shape) {
    std::string size = d.str();
    try {
      size = std::to_string(d.evaluate(symbols));
    } catch (const Error&) {  // only running can tell
    }
    dims += (dims.empty() ? "" : "x") + size;
  }
  return fmt::format("{}[{}]", to_string(type.dtype), dims);
}

// Values in the order in which they are first named.
class Numbers {
 public:
  std::string name(ValueId id) {
    if (id == no_value) return "-";
    return fmt::format("%{}", numbers_.try_emplace(id, numbers_.size()).first->second);
  }

 private:
  std::map<ValueId, size_t> numbers_;
};

void append_graph(std::string& text, const Graph& graph, bool is_region);

// What of a constant decides how long a kernel takes. One number of f32 is as good as another, but for those with which
// arithmetic has less to do: layers of a quantised model differ in their scales alone.
std::string number_text(const Tensor& constant) {
  if (constant.dtype() == DType::f32 && constant.size() == 1) {
    const float x = *constant.as<float>();
    if (std::isfinite(x) && x != 0 && std::abs(x) != 1) return x > 0 ? "+" : "-";
  }
  return to_hex(hash64(constant.span()));
}

// What branches and loops multiply by, whatever numbers it has: a refit replaces them. Lists of integers and masks may
// say how often a loop runs, and what a region holds may decide how it is computed.
bool is_weight(const Tensor& constant) {
  switch (constant.dtype()) {
    case DType::i32:
    case DType::i64:
    case DType::boolean:
      return constant.rank() > 1;
    default:
      return constant.size() > 1;
  }
}

// A region's operator only says what kind of body it has.
void append_node(std::string& text, const Node& node, Numbers& numbers) {
  text += to_string(node.op) + "(";
  for (size_t i = 0; i < node.inputs.size(); ++i) text += (i > 0 ? "," : "") + numbers.name(node.inputs[i]);
  text += ")";
  for (const Graph& body : node.bodies) append_graph(text, body, node.op.as<ops::Region>() != nullptr);
  text += "->";
  for (size_t o = 0; o < node.outputs.size(); ++o) text += (o > 0 ? "," : "") + numbers.name(node.outputs[o]);
}

void append_graph(std::string& text, const Graph& graph, bool is_region) {
  Numbers numbers;
  text += "{";
  for (const ValueId id : graph.inputs) text += numbers.name(id) + ",";
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.constant && !value.constant->is_elided() && !holds_objects(value.type.dtype))
      text += fmt::format(" {}={}#{}", numbers.name(static_cast<ValueId>(v)), to_string(value.type),
                          is_region || !is_weight(*value.constant) ? number_text(*value.constant) : "weights");
  }
  for (const Node& node : graph.nodes) {
    text += " ";
    append_node(text, node, numbers);
  }
  text += " return";
  for (const ValueId id : graph.outputs) text += " " + numbers.name(id);
  text += "}";
}

}  // namespace

std::string problem_text(const RegionView& region) {
  std::string text;
  Numbers numbers;
  append_node(text, region.node, numbers);
  const auto describe = [&](ValueId id) {
    if (id == no_value) return;
    text += fmt::format(" {}:{}{}", numbers.name(id), type_text(region.graph.type(id), region.symbols),
                        region.graph.is_constant(id) ? "=const" : "");
  };
  for (const ValueId id : region.node.inputs) describe(id);
  for (const ValueId id : region.node.outputs) describe(id);
  return text;
}

}  // namespace camshaft
