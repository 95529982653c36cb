#include "api/arena.h"

#include "compile/plan/bound_plan.h"
#include "reference/evaluate.h"
#include "runtime/engine_impl.h"

namespace camshaft::api {

std::vector<ArenaBuffer> arena_buffers(const Engine& engine, const std::map<std::string, Dims>& inputs, int threads) {
  const std::shared_ptr<const Engine::Impl> held = engine.impl();
  const Engine::Impl& impl = *held;
  SymbolBindings symbols;
  for (const ValueId id : impl.graph.inputs)
    if (const auto given = inputs.find(impl.graph.value(id).name); given != inputs.end())
      bind_symbols(impl.graph.shape(id), given->second, "input '" + given->first + "'", symbols);
  const Plan& plan = impl.plan;
  const BoundPlan bound(plan, std::move(symbols), threads);
  std::vector<ArenaBuffer> buffers;
  for (size_t v = 0; v < plan.values.size(); ++v) {
    const PlanValue& value = plan.values[v];
    const auto id = static_cast<int32_t>(v);
    if (value.storage != Storage::arena || bound.is_kept(id) || bound.bytes(id) == 0) continue;
    buffers.push_back({value.name, false, to_string(value.device), bound.offset(id),
                       static_cast<int64_t>(bound.bytes(id)), value.first_step, value.last_step});
  }
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Launch* launch = bound.launch(s);
    if (launch == nullptr || launch->workspace_bytes() == 0) continue;
    const auto step = static_cast<int64_t>(s);
    buffers.push_back({plan.steps[s].name, true, to_string(plan.steps[s].device), bound.workspace_offset(s),
                       static_cast<int64_t>(launch->workspace_bytes()), step, step});
  }
  return buffers;
}

}  // namespace camshaft::api
