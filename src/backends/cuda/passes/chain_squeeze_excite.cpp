#include "backends/cuda/passes/chain_squeeze_excite.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/region.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

namespace {

// The mean over all pixels of image[n, …, c], as [n, 1, …, c].
bool is_squeeze(const Graph& graph, const Node& node) {
  const auto* op = node.op.as<ops::Reduce>();
  if (!op || op->kind != ops::ReduceKind::mean || !op->keep_dims) return false;
  const size_t rank = graph.shape(node.inputs[0]).size();
  if (rank < 3 || op->axes.size() != rank - 2) return false;
  for (size_t a = 0; a < op->axes.size(); ++a)
    if (op->axes[a] != static_cast<int64_t>(a) + 1) return false;
  return true;
}

// A product of the channels of x with constant weights.
bool is_product_of(const Graph& graph, const Node& node, ValueId x) {
  const Node& first = first_operator(node);
  if (first.inputs.size() < 2 || node.outputs.size() != 1 || sole_operand(node, 0) != x) return false;
  const ValueId weights = sole_operand(node, 1);
  if (weights == no_value || !graph.is_constant(weights)) return false;
  if (const auto* product = first.op.as<ops::MatMul>()) return !product->transpose_a;
  const auto* conv = first.op.as<ops::Conv>();
  if (!conv || !conv->channels_last || conv->groups != 1) return false;
  const Shape& w = graph.shape(weights);
  return std::all_of(w.begin() + 2, w.end(), [](const Dim& d) { return d == Dim(1); }) &&
         std::all_of(conv->strides.begin(), conv->strides.end(), [](int64_t s) { return s == 1; }) &&
         std::all_of(conv->pads.begin(), conv->pads.end(), [](const Dim& pad) { return pad == Dim(0); });
}

// What gives an image of the same shape as `image`, element by element, and reads it once.
bool is_scale_of(const Graph& graph, const Node& node, ValueId image) {
  const auto* region = node.op.as<ops::Region>();
  const bool pointwise = region ? region->kind == ops::RegionKind::pointwise : node.op.as<ops::Pointwise>() != nullptr;
  return pointwise && node.outputs.size() == 1 && std::count(node.inputs.begin(), node.inputs.end(), image) == 1 &&
         graph.shape(node.outputs[0]) == graph.shape(image);
}

}  // namespace

void chain_squeeze_excite(Graph& graph, const PassContext& /*context*/) {
  remove_dead(graph);
  const Uses uses(graph);
  const auto node = [&](int32_t n) -> const Node& { return graph.nodes[static_cast<size_t>(n)]; };
  const auto sole_reader = [&](int32_t n) {
    const ValueId id = node(n).outputs[0];
    return uses.single(id) ? uses.readers[static_cast<size_t>(id)][0] : -1;
  };
  std::map<int32_t, std::vector<int32_t>> chains;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    if (!is_squeeze(graph, node(n))) continue;
    const int32_t squeeze = sole_reader(n);
    if (squeeze < 0 || !is_product_of(graph, node(squeeze), node(n).outputs[0])) continue;
    const int32_t excite = sole_reader(squeeze);
    if (excite < 0 || !is_product_of(graph, node(excite), node(squeeze).outputs[0])) continue;
    const int32_t scale = sole_reader(excite);
    if (scale < 0 || !is_scale_of(graph, node(scale), node(n).inputs[0])) continue;
    chains[scale] = {n, squeeze, excite, scale};
  }
  make_chains(graph, chains);
}

}  // namespace camshaft
