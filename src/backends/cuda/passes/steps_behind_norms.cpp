#include "backends/cuda/passes/steps_behind_norms.h"

#include "backends/cuda/passes/quantises.h"
#include "ir/ops/reduce.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// The only reader of the norm's rows that quantises them; -1 where there is none, or several.
int32_t quantising_reader(const Graph& graph, const Uses& uses, ValueId rows) {
  int32_t found = -1;
  for (const int32_t n : uses.readers[static_cast<size_t>(rows)]) {
    const Node& reader = graph.nodes[static_cast<size_t>(n)];
    if (!quantises_columns(graph, reader) || reader.inputs[0] != rows) continue;
    if (found >= 0) return -1;
    found = n;
  }
  return found;
}

}  // namespace

void steps_behind_norms(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto* norm = graph.nodes[n].op.as<ops::LayerNorm>();
    if (!norm) continue;
    const ValueId rows = graph.nodes[n].outputs[0];
    const int32_t reader = quantising_reader(graph, uses, rows);
    if (reader < 0) continue;
    const Node& last = graph.nodes[static_cast<size_t>(reader)];
    // Columns are the elements of a row.
    if (last.inputs.size() > 1 && norm->axis + 1 != static_cast<int64_t>(graph.shape(rows).size())) continue;
    RegionEditor made = RegionEditor::around(graph, graph.nodes[n], ops::RegionKind::reduce);
    made.add_result(last.outputs[0], append_steps(made, graph, last, made.inner_result(rows)));
    if (uses.single(rows)) made.drop_result(rows);
    made.set_sources(merged_sources(graph.nodes[n].sources, last.sources));
    graph.nodes[n] = made.finish();
    gone[static_cast<size_t>(reader)] = true;
  }
  std::vector<Node> kept;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (!gone[n]) kept.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(kept);
}

}  // namespace camshaft
