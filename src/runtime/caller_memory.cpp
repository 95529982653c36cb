#include "runtime/caller_memory.h"

namespace camshaft {

Transfers::Transfers(const Plan& plan) : inputs(plan.inputs.size()), outputs(plan.outputs.size()) {
  const auto value = [&](int32_t id) -> const PlanValue& { return plan.values[static_cast<size_t>(id)]; };
  const auto device = [&](int32_t id) { return value(plan.root(id)).device; };
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    const bool is_copy = step.inputs.size() == 1 && step.outputs.size() == 1 && step.inputs[0] >= 0 &&
                         device(step.inputs[0]) != device(step.outputs[0]);
    if (is_copy && value(step.inputs[0]).storage == Storage::input) {
      Transfer& transfer = inputs[static_cast<size_t>(value(step.inputs[0]).index)];
      transfer.step = static_cast<int32_t>(s);
      transfer.device_value = step.outputs[0];
      continue;
    }
    if (is_copy && value(step.outputs[0]).storage == Storage::output) {
      Transfer& transfer = outputs[static_cast<size_t>(value(step.outputs[0]).index)];
      transfer.step = static_cast<int32_t>(s);
      transfer.device_value = step.inputs[0];
      continue;
    }
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0 || !step.kernel->reads_input(i)) continue;
      const PlanValue& read = value(plan.root(step.inputs[i]));
      if (read.storage == Storage::input) inputs[static_cast<size_t>(read.index)].on_host = true;
      if (read.storage == Storage::output) outputs[static_cast<size_t>(read.index)].on_host = true;
    }
  }
}

}  // namespace camshaft
