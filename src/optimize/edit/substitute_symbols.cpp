#include "optimize/edit/substitute_symbols.h"

#include "ir/ops/operators.h"
#include "ir/symbols.h"

namespace camshaft {

namespace {

// Whether anything changed.
bool substitute(Dim& dim, const SymbolReplacements& replacements) {
  if (all_symbols({dim}, [&](const std::string& name) { return !replacements.contains(name); })) return false;
  dim = dim.substitute(replacements);
  return true;
}

bool substitute(std::vector<Dim>& dims, const SymbolReplacements& replacements) {
  bool changed = false;
  for (Dim& d : dims) changed |= substitute(d, replacements);
  return changed;
}

void substitute(TensorType& type, const SymbolReplacements& replacements) {
  substitute(type.shape, replacements);
  for (TensorType& element : type.elements) substitute(element, replacements);
}

}  // namespace

void substitute_in_values(Graph& graph, const SymbolReplacements& replacements) {
  for (Value& value : graph.values) {
    substitute(value.type, replacements);
    if (value.content) substitute(*value.content, replacements);
  }
}

void substitute_in_node(Node& node, const SymbolReplacements& replacements) {
  Fields fields = node.op.fields();
  bool changed = false;
  for (auto& [name, value] : fields) {
    if (auto* dim = std::get_if<Dim>(&value)) changed |= substitute(*dim, replacements);
    if (auto* shape = std::get_if<Shape>(&value)) changed |= substitute(*shape, replacements);
  }
  if (changed) node.op = operators().make(node.op.name(), fields);
  for (Graph& body : node.bodies) {
    substitute_in_values(body, replacements);
    for (Node& inner : body.nodes) substitute_in_node(inner, replacements);
  }
}

}  // namespace camshaft
