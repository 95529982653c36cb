#include "optimize/canonicalize/eliminate_common_subexpressions.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>

#include "base/hash.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// Weights are hundreds of megabytes in a mapped file: hash both ends of each, and compare in full what agrees.
constexpr size_t sample_bytes = 256;

uint64_t sampled_hash(const Tensor& tensor) {
  Hasher hasher;
  hasher.add(to_string(tensor.dtype()));
  hasher.add(to_string(tensor.dims()));
  const size_t count = std::min(sample_bytes, tensor.bytes());
  hasher.add(tensor.span().first(count));
  hasher.add(tensor.span().last(count));
  return hasher.hash64();
}

bool same_tensor(const Tensor& a, const Tensor& b) {
  if (a.data() == b.data() && a.dtype() == b.dtype() && a.dims() == b.dims()) return true;
  return a == b;
}

// Whether they stay equal, whatever takes the place of the model's weights.
bool stay_equal(const Value& a, const Value& b) {
  if (!may_be_replaced(a.provenance) && !may_be_replaced(b.provenance)) return true;
  return a.provenance && b.provenance && same(*a.provenance, *b.provenance);
}

// Each takes the place of those that are equal to it, and stems from the initializers of all.
void merge_constants(Graph& graph, Rewriter& rewriter) {
  std::unordered_map<ValueId, std::vector<Constant>> merged;
  std::unordered_map<uint64_t, std::vector<ValueId>> seen;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (!is_readable_constant(graph, id)) continue;
    const Tensor& tensor = *graph.value(id).constant;
    std::vector<ValueId>& candidates = seen[sampled_hash(tensor)];
    const auto same = std::find_if(candidates.begin(), candidates.end(), [&](ValueId other) {
      return stay_equal(graph.value(id), graph.value(other)) && same_tensor(tensor, *graph.value(other).constant);
    });
    if (same != candidates.end()) {
      rewriter.replace(id, *same);
      std::vector<Constant>& all = merged[*same];
      if (all.empty()) all.push_back(graph.constant(*same));
      all.push_back(graph.constant(id));
    } else {
      candidates.push_back(id);
    }
  }
  for (const auto& [id, all] : merged) graph.value(id).provenance = Provenance::equal(all);
}

bool is_commutative(const Op& op) {
  const auto* pointwise = op.as<ops::Pointwise>();
  if (!pointwise) return false;
  using F = ScalarFunction;
  switch (pointwise->function) {
    case F::add:
    case F::mul:
    case F::min:
    case F::max:
    case F::equal:
    case F::logical_and:
    case F::logical_or:
    case F::logical_xor:
    case F::bitwise_and:
    case F::bitwise_or:
    case F::bitwise_xor:
      return true;
    default:
      return false;
  }
}

std::vector<ValueId> key_inputs(const Node& node) {
  std::vector<ValueId> ids = node.inputs;
  if (is_commutative(node.op)) std::sort(ids.begin(), ids.end());
  return ids;
}

uint64_t key_of(const Node& node, const std::vector<ValueId>& inputs) {
  Hasher hasher;
  hasher.add(to_string(node.op));
  hasher.add(std::as_bytes(std::span(inputs)));
  return hasher.hash64();
}

}  // namespace

void eliminate_common_subexpressions(Graph& graph, const PassContext&) {
  Rewriter rewriter(graph);
  merge_constants(graph, rewriter);
  std::unordered_map<uint64_t, std::vector<size_t>> seen;  // of nodes that were kept
  const auto same = [&](const Node& a, const std::vector<ValueId>& inputs, const Node& b) {
    if (!(a.op == b.op) || inputs != key_inputs(b) || a.outputs.size() != b.outputs.size()) return false;
    // A size that only running tells has its own symbol: such nodes have different types.
    for (size_t i = 0; i < a.outputs.size(); ++i)
      if (graph.type(a.outputs[i]) != graph.type(b.outputs[i])) return false;
    return true;
  };
  for (Node& node : rewriter.nodes()) {
    rewriter.resolve(node);
    if (!node.bodies.empty()) {
      rewriter.keep(std::move(node));
      continue;
    }
    const std::vector<ValueId> inputs = key_inputs(node);
    std::vector<size_t>& candidates = seen[key_of(node, inputs)];
    const auto found = std::find_if(candidates.begin(), candidates.end(),
                                    [&](size_t n) { return same(node, inputs, graph.nodes[n]); });
    if (found == candidates.end()) {
      candidates.push_back(graph.nodes.size());
      rewriter.keep(std::move(node));
      continue;
    }
    Node& kept = graph.nodes[*found];
    for (size_t i = 0; i < node.outputs.size(); ++i) rewriter.replace(node.outputs[i], kept.outputs[i]);
    kept.sources = merged_sources(kept.sources, node.sources);
  }
  rewriter.finish();
}

}  // namespace camshaft
