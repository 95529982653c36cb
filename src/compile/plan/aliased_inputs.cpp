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

// What a value on a GPU is copied from, or to: the caller's. On the host the value itself.
int32_t callers(const Plan& plan, int32_t id) {
  const int32_t other = value_of(plan, id).copy_of;
  return other < 0 ? id : plan.root(other);
}

// The input that a step, the `at`th, can write its result `o` over; -1: none.
int32_t overwritten_input(const Plan& plan, size_t at, size_t o) {
  const PlanStep& step = plan.steps[at];
  const PlanValue& result = value_of(plan, step.outputs[o]);
  if (!step.kernel || step.is_invariant) return -1;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] < 0) continue;
    const int32_t root = plan.root(step.inputs[i]), caller = callers(plan, root);
    const PlanValue& input = value_of(plan, caller);
    if (input.storage != Storage::input || input.type != result.type) continue;
    bool all_can = true;
    for (size_t k = 0; k < step.inputs.size(); ++k)
      if (step.inputs[k] >= 0 && plan.root(step.inputs[k]) == root)
        all_can = all_can && plan.is_dense(step.inputs[k]) && step.kernel->can_run_in_place(k, o);
    const bool is_read_later = std::any_of(plan.steps.begin() + static_cast<std::ptrdiff_t>(at) + 1, plan.steps.end(),
                                           [&](const PlanStep& later) { return reads(plan, later, root); });
    // Of one that is copied nothing but the copy reads what is copied.
    const bool is_read_besides =
        root != caller && std::any_of(plan.steps.begin(), plan.steps.end(), [&](const auto& s) {
          return reads(plan, s, caller) && (s.outputs.size() != 1 || s.outputs[0] != root);
        });
    const bool is_output = std::any_of(plan.outputs.begin(), plan.outputs.end(),
                                       [&](int32_t output) { return plan.root(output) == caller; });
    if (all_can && !is_read_later && !is_read_besides && !is_output) return input.index;
  }
  return -1;
}

}  // namespace

std::vector<int32_t> aliased_inputs(const Plan& plan) {
  std::vector<int32_t> inputs(plan.outputs.size(), -1);
  std::vector<bool> taken(plan.inputs.size());
  for (size_t at = 0; at < plan.steps.size(); ++at)
    for (size_t o = 0; o < plan.steps[at].outputs.size(); ++o) {
      if (plan.steps[at].outputs[o] < 0) continue;
      const int32_t id = callers(plan, plan.steps[at].outputs[o]);
      if (value_of(plan, id).storage != Storage::output) continue;
      const int32_t input = overwritten_input(plan, at, o);
      if (input < 0 || taken[static_cast<size_t>(input)]) continue;
      taken[static_cast<size_t>(input)] = true;
      for (size_t k = 0; k < plan.outputs.size(); ++k)
        if (plan.root(plan.outputs[k]) == id) inputs[k] = input;
    }
  return inputs;
}

}  // namespace camshaft
