#include "optimize/layout/compose_moves.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "ir/ops/contract.h"
#include "ir/ops/index_map.h"
#include "ir/ops/move.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/move_chain.h"

namespace camshaft {

namespace {

// As many as the kernels of a GPU walk.
constexpr size_t most_axes = 8;

struct Found {
  ValueId x = no_value;
  std::vector<std::string> sources;
  ChainMap map;
  bool is_turned = false;  // the last two axes change places, and the product that reads the result knows
};

bool is_reshape(const Node& node) {
  return node.op.as<ops::Reshape>() && node.inputs.size() == 1;
}

class Search {
 public:
  Search(const Graph& graph, const Uses& uses) : graph_(graph), uses_(uses) {}

  /// The chain that ends at `last`, and the values inside it.
  std::optional<Found> chain_before(const Node& last, std::vector<ValueId>& taken) const {
    // Elements that are known belong to shapes.
    if (graph_.value(last.outputs[0]).content) return std::nullopt;
    MoveChain chain(graph_, uses_, graph_.shape(last.outputs[0]));
    std::optional<Found> found;
    std::vector<std::string> sources;
    std::vector<ValueId> inner;
    // Slices at the operand's end are views, or are read as such: they count where they leave out what others move.
    int moves = 0, slices = 0;
    bool picks = false;
    for (const Node* node = &last; chain.cross(*node);) {
      sources = merged_sources(node->sources, sources);
      const auto roll = roll_of(graph_, uses_, *node);
      if (roll)
        for (const ValueId part : node->inputs) {
          const int32_t slice = uses_.producer[static_cast<size_t>(part)];
          sources = merged_sources(graph_.nodes[static_cast<size_t>(slice)].sources, sources);
        }
      if (node->op.as<ops::Slice>()) {
        ++slices;
      } else if (!is_reshape(*node)) {
        picks = picks || slices > 0 || !node->op.as<ops::Transpose>();
        moves += 1 + std::exchange(slices, 0);
      }
      if (moves >= 2 && picks && slices == 0) {
        if (auto map = chain.map(); map && is_walkable(*map)) {
          found = Found{chain.operand(), sources, std::move(*map)};
          taken = inner;
        }
      }
      const ValueId x = chain.operand();
      const int32_t before = uses_.producer[static_cast<size_t>(x)];
      if (before < 0 || !is_read_here_alone(x, roll ? node : nullptr)) break;
      if (roll) inner.insert(inner.end(), node->inputs.begin(), node->inputs.end());
      inner.push_back(x);
      node = &graph_.nodes[static_cast<size_t>(before)];
    }
    return found;
  }

  /// The product of two activations that alone reads a result whose last two axes it would rather have in the order in
  /// which they lie in memory: the number of its operand.
  std::optional<size_t> operand_to_turn(const Found& found, ValueId result) const {
    const size_t rank = graph_.shape(result).size();
    if (rank < 2 || !uses_.single(result)) return std::nullopt;
    const Node& reader = graph_.nodes[static_cast<size_t>(uses_.readers[static_cast<size_t>(result)][0])];
    if (!reader.op.as<ops::MatMul>() || graph_.is_constant(reader.inputs[0]) || graph_.is_constant(reader.inputs[1]))
      return std::nullopt;
    const int last = static_cast<int>(rank) - 1;
    if (!lies_in_order(found, last - 1) || lies_in_order(found, last)) return std::nullopt;
    return reader.inputs[0] == result ? 0 : 1;
  }

 private:
  // Along an axis of the result neighbours are neighbours.
  bool lies_in_order(const Found& found, int role) const {
    for (size_t a = found.map.roles.size(); a-- > 0;)
      if (found.map.roles[a] == role && !(found.map.sizes[a] == Dim(1)))
        return found.map.along[a] + 1 == std::ssize(graph_.shape(found.x)) && found.map.steps[a] == 1;
    return false;
  }

  static bool is_walkable(const ChainMap& map) {
    return map.sizes.size() <= most_axes && map.starts.size() <= most_axes;
  }

  // By one node, or by the slices of a roll.
  bool is_read_here_alone(ValueId x, const Node* roll) const {
    if (!roll) return uses_.single(x);
    return !uses_.is_output[static_cast<size_t>(x)] && uses_.readers[static_cast<size_t>(x)].size() == 2 &&
           std::all_of(roll->inputs.begin(), roll->inputs.end(), [&](ValueId part) { return uses_.single(part); });
  }

  const Graph& graph_;
  const Uses& uses_;
};

void turn(ChainMap& map, Shape& shape) {
  const int last = static_cast<int>(shape.size()) - 1;
  std::vector<size_t> order(map.sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](size_t a) { return map.roles[a] != last - 1; });
  ChainMap turned = map;
  for (size_t i = 0; i < order.size(); ++i) {
    turned.sizes[i] = map.sizes[order[i]];
    turned.along[i] = map.along[order[i]];
    turned.steps[i] = map.steps[order[i]];
  }
  map = std::move(turned);
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
}

ValueId index_map(Graph& graph, Found& found, ValueId result) {
  const std::string name = graph.value(result).name;
  Shape shape = graph.shape(result);
  if (found.is_turned) turn(found.map, shape);
  const ops::IndexMap op{found.map.sizes, found.map.along, found.map.steps, found.map.starts, found.map.wraps};
  std::vector<ValueId> inputs{found.x};
  if (found.map.value != no_value) inputs.push_back(found.map.value);
  const ValueId y = graph.add(op, std::move(inputs), name, found.sources);
  return graph.shape(y) == shape ? y : graph.add(ops::Reshape{shape}, {y}, name, found.sources);
}

}  // namespace

void compose_moves(Graph& graph, const PassContext&) {
  // From the ends of chains: what they take in is dead behind them.
  std::vector<std::optional<Found>> chains(graph.values.size());
  std::vector<std::pair<ops::MatMul, bool>> turned(graph.values.size());  // by the result of a product
  {
    const Uses uses(graph);
    const Search search(graph, uses);
    std::vector<bool> inside(graph.values.size());
    for (size_t n = graph.nodes.size(); n-- > 0;) {
      const Node& node = graph.nodes[n];
      if (node.outputs.size() != 1 || inside[static_cast<size_t>(node.outputs[0])]) continue;
      std::vector<ValueId> taken;
      auto& found = chains[static_cast<size_t>(node.outputs[0])];
      found = search.chain_before(node, taken);
      if (!found) continue;
      for (const ValueId id : taken) inside[static_cast<size_t>(id)] = true;
      const auto operand = search.operand_to_turn(*found, node.outputs[0]);
      if (!operand) continue;
      found->is_turned = true;
      const Node& product = graph.nodes[static_cast<size_t>(uses.readers[static_cast<size_t>(node.outputs[0])][0])];
      auto& [op, is_turned] = turned[static_cast<size_t>(product.outputs[0])];
      if (!std::exchange(is_turned, true)) op = *product.op.as<ops::MatMul>();
      bool& flag = *operand == 0 ? op.transpose_a : op.transpose_b;
      flag = !flag;
    }
  }
  Rewriter rewriter(graph);
  rewriter.replace_each([&](const Node& node) -> ValueId {
    const size_t result = node.outputs.size() == 1 ? static_cast<size_t>(node.outputs[0]) : chains.size();
    if (result >= chains.size()) return no_value;
    if (turned[result].second)
      return graph.add(turned[result].first, node.inputs, graph.value(node.outputs[0]).name, node.sources);
    if (!chains[result]) return no_value;
    Found& found = *chains[result];
    found.x = rewriter.resolve(found.x);
    found.map.value = rewriter.resolve(found.map.value);  // a chain of its own may have made it
    return index_map(graph, found, node.outputs[0]);
  });
}

}  // namespace camshaft
