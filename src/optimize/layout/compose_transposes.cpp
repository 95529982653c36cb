#include "optimize/layout/compose_transposes.h"

#include <algorithm>
#include <optional>

#include "ir/ops/move.h"
#include "ir/rewriter.h"
#include "optimize/analysis/access_space.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// As many as the kernels of a GPU walk; pieces of more axes are short ones.
constexpr size_t most_composed_axes = 6;

struct Chain {
  ValueId x = no_value;  // what the first of them reads
  int transposes = 0;
  std::vector<std::string> sources;
  AccessSpace space;  // the axes of the result, and how they go through x
};

// The transposes and reshapes that end at `last`, of which each alone reads the one before.
std::optional<Chain> chain_before(const Graph& graph, const Uses& uses, const Node& last) {
  Chain chain;
  const Shape& result = graph.shape(last.outputs[0]);
  for (const Dim& size : result) chain.space.add_axis(size, 0);
  const size_t access = chain.space.add_access(dense_strides(result));
  for (const Node* node = &last;;) {
    const auto* transpose = node->op.as<ops::Transpose>();
    if (transpose) {
      const Shape strides = dense_strides(graph.shape(node->inputs[0]));
      std::vector<AccessSpace::Target> targets;
      for (const int64_t axis : transpose->permutation) targets.push_back({strides[static_cast<size_t>(axis)], 0});
      if (!chain.space.remap(access, graph.shape(node->outputs[0]), targets)) break;
      ++chain.transposes;
    }
    chain.x = node->inputs[0];
    chain.sources = merged_sources(node->sources, chain.sources);
    const int32_t before = uses.producer[static_cast<size_t>(chain.x)];
    if (before < 0 || !uses.single(chain.x)) break;
    node = &graph.nodes[static_cast<size_t>(before)];
    const bool moves = node->op.as<ops::Transpose>() || node->op.as<ops::Reshape>();
    if (!moves || node->inputs.size() != 1) break;
  }
  if (chain.transposes < 2) return std::nullopt;
  chain.space.simplify();
  return chain;
}

// The axes of the result in the order in which they lie in x; nullopt unless they are all of x, each element once.
std::optional<std::vector<size_t>> order_in_operand(const AccessSpace& space) {
  const AccessSpace::Access& access = space.access(0);
  std::vector<size_t> order;
  Dim stride = 1;
  while (order.size() < space.axes()) {
    size_t axis = 0;
    while (axis < space.axes() &&
           (!(access.strides[axis] == stride) || std::find(order.begin(), order.end(), axis) != order.end()))
      ++axis;
    if (axis == space.axes()) return std::nullopt;
    order.push_back(axis);
    stride = stride * space.size(axis);
  }
  std::reverse(order.begin(), order.end());
  return order;
}

// The value that the whole chain gives.
std::optional<ValueId> composed(Graph& graph, const Chain& chain, const Node& last) {
  const auto order = order_in_operand(chain.space);
  if (!order || order->size() > most_composed_axes || !(chain.space.access(0).offset == Dim(0))) return std::nullopt;
  const std::string name = graph.value(last.outputs[0]).name;
  const Shape result = graph.shape(last.outputs[0]);
  Shape split;
  ops::Transpose transpose;
  transpose.permutation.resize(order->size());
  for (size_t i = 0; i < order->size(); ++i) {
    split.push_back(chain.space.size((*order)[i]));
    transpose.permutation[(*order)[i]] = static_cast<int64_t>(i);
  }
  ValueId y = chain.x;
  if (!std::is_sorted(transpose.permutation.begin(), transpose.permutation.end())) {
    if (graph.shape(y) != split) y = graph.add(ops::Reshape{split}, {y}, name, chain.sources);
    y = graph.add(transpose, {y}, name, chain.sources);
  }
  if (graph.shape(y) != result) y = graph.add(ops::Reshape{result}, {y}, name, chain.sources);
  return graph.type(y) == graph.type(last.outputs[0]) ? std::optional(y) : std::nullopt;
}

}  // namespace

void compose_transposes(Graph& graph, const PassContext&) {
  // From the ends of chains: what they take in is dead behind them.
  std::vector<std::optional<Chain>> chains(graph.values.size());
  {
    const Uses uses(graph);
    std::vector<bool> inside(graph.values.size());
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const Node& node = graph.nodes[n];
      if (!node.op.as<ops::Transpose>() || inside[static_cast<size_t>(node.outputs[0])]) continue;
      auto chain = chain_before(graph, uses, node);
      if (!chain) continue;
      for (ValueId id = node.inputs[0]; id != chain->x;) {
        inside[static_cast<size_t>(id)] = true;
        id = graph.nodes[static_cast<size_t>(uses.producer[static_cast<size_t>(id)])].inputs[0];
      }
      chains[static_cast<size_t>(node.outputs[0])] = std::move(chain);
    }
  }
  Rewriter rewriter(graph);
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    const size_t result = node.outputs.size() == 1 ? static_cast<size_t>(node.outputs[0]) : chains.size();
    if (result < chains.size() && chains[result]) {
      chains[result]->x = rewriter.resolve(chains[result]->x);
      if (const auto y = composed(graph, *chains[result], node)) {
        rewriter.replace(node.outputs[0], *y);
        continue;
      }
    }
    rewriter.keep(std::move(node));
  }
  rewriter.finish();
}

}  // namespace camshaft
