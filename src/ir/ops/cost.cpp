#include "ir/ops/cost.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"

namespace camshaft::ops {

namespace {

bool takes_exponential(ScalarFunction function) {
  switch (function) {
    case ScalarFunction::exp:
    case ScalarFunction::log:
    case ScalarFunction::log1p:
    case ScalarFunction::sin:
    case ScalarFunction::cos:
    case ScalarFunction::tan:
    case ScalarFunction::asin:
    case ScalarFunction::acos:
    case ScalarFunction::atan:
    case ScalarFunction::sinh:
    case ScalarFunction::cosh:
    case ScalarFunction::tanh:
    case ScalarFunction::asinh:
    case ScalarFunction::acosh:
    case ScalarFunction::atanh:
    case ScalarFunction::erf:
    case ScalarFunction::sigmoid:
    case ScalarFunction::pow:  // of what powers remain: those with small constant exponents are products by now
      return true;
    default:
      return false;
  }
}

bool takes_exponential(const std::string& recurrent_activation) {
  constexpr std::string_view names[] = {"tanh", "sigmoid", "scaledtanh", "elu", "softplus"};
  return std::find(std::begin(names), std::end(names), recurrent_activation) != std::end(names);
}

// How often a cell takes its activation i, of those of one direction.
int times_taken(const Recurrent& op, size_t i) {
  if (i > 0 || op.cell == CellKind::rnn) return 1;
  return op.cell == CellKind::lstm && !op.input_forget ? 3 : 2;
}

struct Work {
  double flops = 0, exponentials = 0;
  Work& operator+=(const Work& other) {
    flops += other.flops;
    exponentials += other.exponentials;
    return *this;
  }
};

class Counter {
 public:
  Counter(const Graph& graph, const SymbolBindings& symbols) : graph_(graph), symbols_(symbols) {}

  // Throws Error for a symbol that has no value.
  Work work(const Node& node) const {
    if (node.op.as<Region>()) return body_work(node.bodies[0]);
    if (node.op.as<If>()) {
      const Work first = body_work(node.bodies[0]), second = body_work(node.bodies[1]);
      const auto order = [](const Work& work) { return std::pair(work.flops, work.exponentials); };
      return order(first) < order(second) ? second : first;
    }
    const bool contracts = node.op.traits().kind == OpKind::contraction;
    return {contracts ? node.op.flops(sizes(node)) : 0, exponentials(node)};
  }

  double bytes(ValueId id) const { return elements(id) * bits(graph_.type(id).dtype) / 8; }

 private:
  SizeContext sizes(const Node& node) const { return {shapes(node.inputs), shapes(node.outputs), symbols_}; }
  double exponentials(const Node& node) const {
    if (const auto* op = node.op.as<Pointwise>())
      return takes_exponential(op->function) && is_floating(graph_.type(node.outputs[0]).dtype)
                 ? elements(node.outputs[0])
                 : 0;
    if (node.op.as<Softmax>()) return elements(node.outputs[0]);
    if (const auto* op = node.op.as<Attention>()) {
      const SizeContext sizes = this->sizes(node);
      const double scores = sizes.elements(op->outer) * sizes.elements(op->queries) * sizes.elements(op->keys);
      return op->softcap > 0 ? 2 * scores : scores;
    }
    if (const auto* op = node.op.as<Recurrent>()) {
      const SizeContext sizes = this->sizes(node);
      const Shape& x = sizes.operand(Recurrent::in_x);
      const double states =
          sizes.size(x[0]) * sizes.size(x[1]) * sizes.size(sizes.operand(Recurrent::in_recurrence).back());
      double total = 0;
      for (size_t i = 0; i < op->activations.size(); ++i)
        if (takes_exponential(op->activations[i]))
          total += states * times_taken(*op, i % activations_per_direction(op->cell));
      return total;
    }
    return 0;
  }
  std::vector<const Shape*> shapes(const std::vector<ValueId>& ids) const {
    std::vector<const Shape*> list;
    for (const ValueId id : ids) list.push_back(id == no_value ? nullptr : &graph_.shape(id));
    return list;
  }
  double elements(ValueId id) const { return SizeContext({}, {}, symbols_).elements(graph_.shape(id)); }
  static double bits(DType dtype) { return static_cast<double>(byte_size(dtype, 8)); }
  Work body_work(const Graph& body) const {
    const Counter inner(body, symbols_);
    Work total;
    for (const Node& node : body.nodes) total += inner.work(node);
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
    const Work work = counter.work(node);
    cost.flops = work.flops;
    cost.exponentials = work.exponentials;
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
