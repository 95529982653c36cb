#include "compile/plan/aliased_inputs.h"

#include <algorithm>

namespace camshaft {

namespace {

const PlanValue& value_of(const Plan& plan, int32_t id) {
  return plan.values[static_cast<size_t>(id)];
}

bool reads(const Plan& plan, const PlanStep& step, int32_t root) {
  return std::any_of(step.inputs.begin(), step.inputs.end(),
                     [&](int32_t in) { return in >= 0 && plan.root(in) == root; });
}

// The input that a step, the `at`th, can write its result `o` over; -1: none.
int32_t overwritten_input(const Plan& plan, size_t at, size_t o) {
  const PlanStep& step = plan.steps[at];
  const PlanValue& result = value_of(plan, step.outputs[o]);
  if (!step.kernel || step.is_invariant || !step.device.is_host()) return -1;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] < 0) continue;
    const int32_t root = plan.root(step.inputs[i]);
    const PlanValue& input = value_of(plan, root);
    if (input.storage != Storage::input || input.type != result.type) continue;
    bool all_can = true;
    for (size_t k = 0; k < step.inputs.size(); ++k)
      if (step.inputs[k] >= 0 && plan.root(step.inputs[k]) == root)
        all_can = all_can && plan.is_dense(step.inputs[k]) && step.kernel->can_run_in_place(k, o);
    const bool is_read_later = std::any_of(plan.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1, plan.steps.end(),
                                           [&](const PlanStep& later) { return reads(plan, later, root); });
    const bool is_output = std::any_of(plan.outputs.begin(), plan.outputs.end(),
                                       [&](int32_t output) { return plan.root(output) == root; });
    if (all_can && !is_read_later && !is_output) return input.index;
  }
  return -1;
}

}  // namespace

std::vector<int32_t> aliased_inputs(const Plan& plan) {
  std::vector<int32_t> inputs(plan.outputs.size(), -1);
  std::vector<bool> taken(plan.inputs.size());
  for (size_t at = 0; at < plan.steps.size(); ++at)
    for (size_t o = 0; o < plan.steps[at].outputs.size(); ++o) {
      const int32_t id = plan.steps[at].outputs[o];
      if (id < 0 || value_of(plan, id).storage != Storage::output) continue;
      const int32_t input = overwritten_input(plan, at, o);
      if (input < 0 || taken[static_cast<size_t>(input)]) continue;
      taken[static_cast<size_t>(input)] = true;
      for (size_t k = 0; k < plan.outputs.size(); ++k)
        if (plan.root(plan.outputs[k]) == id) inputs[k] = input;
    }
  return inputs;
}

}  // namespace camshaft
