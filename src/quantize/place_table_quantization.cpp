#include "quantize/place_table_quantization.h"

#include <unordered_map>

#include "ir/ops/move.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "quantize/quantize_constant.h"

namespace camshaft {

namespace {

// Smaller ones are in a cache anyway.
constexpr size_t least_bytes = 64 << 10;

bool is_table(const Graph& graph, ValueId id) {
  return is_readable_constant(graph, id) && graph.type(id).dtype == DType::f32 && graph.shape(id).size() >= 2 &&
         graph.value(id).constant->bytes() >= least_bytes;
}

}  // namespace

void place_table_quantization(Graph& graph) {
  Rewriter rewriter(graph);
  std::unordered_map<ValueId, ValueId> tables;
  for (Node& node : rewriter.nodes()) {
    const auto* gather = node.op.as<ops::Gather>();
    if (gather && gather->axis == 0 && is_table(graph, node.inputs[0])) {
      const auto [table, is_new] = tables.emplace(node.inputs[0], no_value);
      if (is_new) table->second = quantize_constant(graph, table->first, 0, node.sources).real;
      node.inputs[0] = table->second;
    }
    rewriter.keep(std::move(node));
  }
  rewriter.finish();
}

}  // namespace camshaft
