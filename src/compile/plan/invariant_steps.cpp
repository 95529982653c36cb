#include "compile/plan/invariant_steps.h"

#include <algorithm>

#include "ir/ops/collective.h"

namespace camshaft {

InvariantSteps find_invariant_steps(const Plan& plan) {
  const auto value = [&](int32_t id) -> const PlanValue& { return plan.values[static_cast<size_t>(id)]; };
  // What is computed on a GPU for an output of the caller's may be computed in the caller's memory.
  const auto is_callers = [&](const PlanValue& v) {
    return v.storage == Storage::output || (v.copy_of >= 0 && value(plan.root(v.copy_of)).storage == Storage::output);
  };
  InvariantSteps found{std::vector<bool>(plan.steps.size(), false), std::vector<bool>(plan.values.size(), false)};
  for (const PlanStep& step : plan.steps)
    for (const int32_t id : step.outputs) {
      const int32_t root = plan.root(id);
      found.values[static_cast<size_t>(root)] =
          value(root).storage == Storage::arena && !holds_objects(value(root).type.dtype) && !is_callers(value(root));
    }
  for (size_t s = 0; s < plan.steps.size(); ++s)
    found.steps[s] = !plan.steps[s].kernel->has_dynamic_outputs() && plan.steps[s].late_symbols.empty() &&
                     plan.steps[s].op != ops::Collective::name;  // which depends on other ranks
  // Parts of a concatenation are written by several steps, of which one may read what a later one has a part in.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      const auto is_invariant = [&](int32_t id) {
        return id < 0 || value(plan.root(id)).storage == Storage::constant ||
               found.values[static_cast<size_t>(plan.root(id))];
      };
      if (found.steps[s] && std::all_of(step.inputs.begin(), step.inputs.end(), is_invariant) &&
          std::all_of(step.outputs.begin(), step.outputs.end(), is_invariant))
        continue;
      changed = changed || found.steps[s];
      found.steps[s] = false;
      for (const int32_t id : step.outputs) {
        const auto root = static_cast<size_t>(plan.root(id));
        changed = changed || found.values[root];
        found.values[root] = false;
      }
    }
  }
  return found;
}

}  // namespace camshaft
