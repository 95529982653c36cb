#include "ir/ops/cost.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/index.h"
#include "ir/ops/index_map.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/move.h"
#include "ir/ops/quantized.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/region.h"
#include "ir/ops/rotary_embedding.h"

namespace camshaft::ops {

namespace {

class Counter {
 public:
  Counter(const Graph& graph, const SymbolBindings& symbols) : graph_(graph), symbols_(symbols) {}

  // Throws Error for a symbol that has no value.
  double flops(const Node& node) const {
    if (node.op.as<Region>()) return body_flops(node.bodies[0]);
    if (node.op.as<If>()) return std::max(body_flops(node.bodies[0]), body_flops(node.bodies[1]));
    if (const auto* op = node.op.as<MatMul>()) {
      const Shape& a = graph_.shape(node.inputs[0]);
      return 2 * elements(node.outputs[0]) * size(a[a.size() - (op->transpose_a ? 2 : 1)]);
    }
    if (node.op.as<IntegerMatMul>()) return 2 * elements(node.outputs[0]) * size(graph_.shape(node.inputs[0]).back());
    if (node.op.as<Conv>() || node.op.as<IntegerConv>())
      return 2 * elements(node.outputs[0]) * per_first(node.inputs[1]);
    if (node.op.as<ConvTranspose>()) return 2 * elements(node.inputs[0]) * per_first(node.inputs[1]);
    if (node.op.as<Recurrent>()) {
      const Shape& x = graph_.shape(node.inputs[0]);
      return 2 * size(x[0]) * size(x[1]) * (elements(node.inputs[1]) + elements(node.inputs[2]));
    }
    if (const auto* op = node.op.as<Attention>())
      return 2 * product(op->outer) * product(op->queries) * product(op->keys) *
             static_cast<double>(op->size + op->value_size);
    if (const auto* op = node.op.as<LinearAttention>()) {  // the state is updated and read at every step
      const double state = size(graph_.shape(node.inputs[0])[2]) * size(graph_.shape(node.inputs[2])[2]);
      return 4 * size(graph_.shape(node.inputs[0])[0]) * size(graph_.shape(node.inputs[0])[1]) * state /
             static_cast<double>(op->key_heads);
    }
    return 0;
  }

  double bytes(ValueId id) const { return elements(id) * bits(graph_.type(id).dtype) / 8; }

  double elements(ValueId id) const { return product(graph_.shape(id)); }

 private:
  double product(const Shape& shape) const {
    double count = 1;
    for (const Dim& dim : shape) count *= size(dim);
    return count;
  }
  static double bits(DType dtype) { return static_cast<double>(byte_size(dtype, 8)); }
  double size(const Dim& dim) const { return static_cast<double>(dim.evaluate(symbols_)); }
  // Elements for each index of the first axis: of an output channel's weights.
  double per_first(ValueId weights) const {
    const double first = size(graph_.shape(weights)[0]);
    return first > 0 ? elements(weights) / first : 0;
  }
  double body_flops(const Graph& body) const {
    const Counter inner(body, symbols_);
    double total = 0;
    for (const Node& node : body.nodes) total += inner.flops(node);
    return total;
  }

  const Graph& graph_;
  const SymbolBindings& symbols_;
};

bool picks(const Node& node) {
  if (const auto* region = node.op.as<Region>()) return region->kind == RegionKind::move;
  return node.op.as<Gather>() || node.op.as<Slice>() || node.op.as<GatherElements>() || node.op.as<GatherND>() ||
         node.op.as<DynamicSlice>() || node.op.as<IndexMap>() || node.op.as<RotaryEmbedding>();
}

struct Contraction {
  const Graph& graph;
  const Node& node;
};

// The node itself, or the first inside it, whose operations are counted.
std::optional<Contraction> contraction_of(const Graph& graph, const Node& node) {
  const Op& op = node.op;
  if (op.as<MatMul>() || op.as<Conv>() || op.as<ConvTranspose>() || op.as<Recurrent>() || op.as<Attention>() ||
      op.as<LinearAttention>())
    return Contraction{graph, node};
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
      const double read = picks(node) ? std::min(written, counter.bytes(id)) : counter.bytes(id);
      (graph.is_constant(id) ? cost.constant_bytes : cost.activation_bytes) += read;
    }
    return cost;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace camshaft::ops
