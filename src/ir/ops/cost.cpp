#include "ir/ops/cost.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/region.h"

namespace camshaft::ops {

namespace {

class Counter {
 public:
  Counter(const Graph& graph, const SymbolBindings& symbols) : graph_(graph), symbols_(symbols) {}

  // Throws Error for a symbol that has no value.
  double flops(const Node& node) const {
    if (node.op.as<Region>()) return body_flops(node.bodies[0]);
    if (node.op.as<If>()) return std::max(body_flops(node.bodies[0]), body_flops(node.bodies[1]));
    if (node.op.traits().kind != OpKind::contraction) return 0;
    return node.op.flops({shapes(node.inputs), shapes(node.outputs), symbols_});
  }

  double bytes(ValueId id) const { return elements(id) * bits(graph_.type(id).dtype) / 8; }

 private:
  std::vector<const Shape*> shapes(const std::vector<ValueId>& ids) const {
    std::vector<const Shape*> list;
    for (const ValueId id : ids) list.push_back(id == no_value ? nullptr : &graph_.shape(id));
    return list;
  }
  double elements(ValueId id) const { return SizeContext({}, {}, symbols_).elements(graph_.shape(id)); }
  static double bits(DType dtype) { return static_cast<double>(byte_size(dtype, 8)); }
  double body_flops(const Graph& body) const {
    const Counter inner(body, symbols_);
    double total = 0;
    for (const Node& node : body.nodes) total += inner.flops(node);
    return total;
  }

  const Graph& graph_;
  const SymbolBindings& symbols_;
};

struct Contraction {
  const Graph& graph;
  const Node& node;
};

// The node itself, or the first inside it, whose operations are counted.
std::optional<Contraction> contraction_of(const Graph& graph, const Node& node) {
  const Traits& traits = node.op.traits();
  if (traits.kind == OpKind::contraction && traits.products != Products::bytes) return Contraction{graph, node};
  for (const Graph& body : node.bodies)
    for (const Node& inner : body.nodes)
      if (const auto found = contraction_of(body, inner)) return found;
  return std::nullopt;
}

}  // namespace

std::optional<Cost> cost(const Graph& graph, const Node& node, const SymbolBindings& symbols) {
  const Counter counter(graph, symbols);
  try {
    Cost cost;
    cost.flops = counter.flops(node);
    if (const auto contraction = contraction_of(graph, node)) {
      const auto& [inside, anchor] = *contraction;
      cost.dtype = inside.type(anchor.inputs[0]).dtype;
      cost.is_matrix = !anchor.op.as<Conv>() || inside.shape(anchor.inputs[1])[1] != Dim(1);
    }
    double written = 0;
    for (const ValueId id : node.outputs) written += counter.bytes(id);
    cost.activation_bytes = written;
    for (const ValueId id : std::set<ValueId>(node.inputs.begin(), node.inputs.end())) {
      if (id == no_value) continue;
      const double read = node.op.picks() ? std::min(written, counter.bytes(id)) : counter.bytes(id);
      (graph.is_constant(id) ? cost.constant_bytes : cost.activation_bytes) += read;
    }
    return cost;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace camshaft::ops
