#include "builder/watched_graph.h"

#include "optimize/pipeline.h"

namespace camshaft {

WatchedGraph watched_graph(Graph graph, std::vector<std::string> tensors, const BackendPasses& passes,
                           const PassContext& context) {
  const WatchedTensors watched(graph, std::move(tensors));
  run_passes_with_branches(graph, passes.form, context);
  run_passes(graph, passes.precision, context);
  std::vector<WatchedValue> values = watched.settle(graph);
  return {std::move(graph), std::move(values)};
}

}  // namespace camshaft
