#include "tools/layer_cost.h"

#include "runtime/engine_impl.h"

namespace camshaft {

std::vector<std::optional<ops::Cost>> layer_costs(const Engine& engine, const std::vector<Tensor>& inputs) {
  const Graph& graph = engine.impl()->graph;
  SymbolBindings symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = graph.shape(graph.inputs[i]);
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol()) symbols.emplace(*symbol, inputs[i].dims()[d]);
  }
  std::vector<std::optional<ops::Cost>> costs;
  for (const PlanStep& step : engine.impl()->plan.steps)
    costs.push_back(step.node < 0 ? ops::Cost()
                                  : ops::cost(graph, graph.nodes[static_cast<size_t>(step.node)], symbols));
  return costs;
}

}  // namespace camshaft
