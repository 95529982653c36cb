#include "api/layer_cost.h"

#include <fmt/format.h>

#include "runtime/engine_impl.h"

namespace camshaft::api {

namespace {

SymbolBindings symbols_of(const Graph& graph, const std::map<std::string, Dims>& inputs) {
  SymbolBindings symbols;
  for (const ValueId id : graph.inputs) {
    const auto given = inputs.find(graph.value(id).name);
    if (given == inputs.end()) continue;
    const Shape& shape = graph.shape(id);
    if (given->second.size() != shape.size())
      throw Error(ErrorCode::invalid_argument, fmt::format("input '{}' has {} dimensions, {} are given", given->first,
                                                           shape.size(), given->second.size()));
    for (size_t d = 0; d < shape.size(); ++d)
      if (const auto symbol = shape[d].as_symbol()) symbols.emplace(*symbol, given->second[d]);
  }
  return symbols;
}

}  // namespace

std::vector<std::optional<ops::Cost>> layer_costs(const Engine& engine, const SymbolBindings& symbols) {
  const std::shared_ptr<const Engine::Impl> impl = engine.impl();
  const Graph& graph = impl->graph;
  std::vector<std::optional<ops::Cost>> costs;
  for (const PlanStep& step : impl->plan.steps)
    costs.push_back(step.node < 0 ? ops::Cost()
                                  : ops::cost(graph, graph.nodes[static_cast<size_t>(step.node)], symbols));
  return costs;
}

std::vector<std::optional<ops::Cost>> layer_costs(const Engine& engine, const std::map<std::string, Dims>& inputs) {
  const std::shared_ptr<const Engine::Impl> impl = engine.impl();
  return layer_costs(engine, symbols_of(impl->graph, inputs));
}

std::vector<LayerOperands> layer_operands(const Engine& engine, const std::map<std::string, Dims>& inputs) {
  const std::shared_ptr<const Engine::Impl> impl = engine.impl();
  const Plan& plan = impl->plan;
  std::map<std::string, Dim, std::less<>> sizes;
  for (const auto& [symbol, size] : symbols_of(impl->graph, inputs)) sizes.emplace(symbol, size);
  const auto texts = [&](const std::vector<int32_t>& ids) {
    std::vector<std::string> list;
    for (const int32_t id : ids) {
      if (id < 0) continue;
      const PlanValue& value = plan.values[static_cast<size_t>(id)];
      TensorType type = value.type;
      for (Dim& size : type.shape) size = size.substitute(sizes);
      list.push_back(fmt::format("{}: {}", value.name, to_string(type)));
    }
    return list;
  };
  std::vector<LayerOperands> operands;
  for (const PlanStep& step : plan.steps) operands.push_back({texts(step.inputs), texts(step.outputs)});
  return operands;
}

LayerBound layer_bound(const ops::Cost& cost, bool rounds, const DeviceLimits& limits) {
  LayerBound bound;
  if (limits.memory_bytes > 0) bound = {cost.bytes() / limits.memory_bytes, "memory"};
  const bool is_half = cost.dtype == DType::f16 || cost.dtype == DType::bf16;
  double most = 0;
  std::string_view what = "f32";  // as what is no matrix is computed
  if (cost.is_matrix && is_half) {
    most = limits.half_flops;
    what = to_string(cost.dtype);
  } else if (cost.is_matrix && rounds) {
    most = limits.tf32_flops;
    what = "tf32";
  } else if (is_half || cost.dtype == DType::f32) {
    most = limits.f32_flops;
  }
  if (most > 0 && cost.flops / most > bound.seconds) bound = {cost.flops / most, what};
  return bound;
}

std::vector<LayerBound> layer_bounds(const Engine& engine, const std::vector<std::optional<ops::Cost>>& costs) {
  const std::shared_ptr<const Engine::Impl> impl = engine.impl();
  const DeviceLimits& limits = impl->backend->device().limits;
  const std::vector<PlanStep>& steps = impl->plan.steps;
  std::vector<LayerBound> bounds(costs.size());
  for (size_t i = 0; i < costs.size(); ++i)
    if (costs[i] && steps[i].device.is_gpu())
      bounds[i] = layer_bound(*costs[i], steps[i].tactic.find("tf32=1") != std::string::npos, limits);
  return bounds;
}

}  // namespace camshaft::api
