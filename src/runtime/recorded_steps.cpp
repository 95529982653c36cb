#include "runtime/recorded_steps.h"

#include <algorithm>

namespace camshaft {

bool RecordedSteps::same_operands(std::span<const std::byte* const> now) {
  if (std::equal(operands.begin(), operands.end(), now.begin(), now.end())) return true;
  operands.assign(now.begin(), now.end());
  recording.reset();
  return false;
}

std::vector<RecordedSteps> steps_to_record(const Plan& plan, const BoundPlan& bound) {
  std::vector<RecordedSteps> found;
  const size_t count = plan.steps.size();
  for (size_t begin = 0, end = 0; begin < count; begin = end + 1) {
    for (end = begin; end < count && bound.launch(end) && plan.steps[end].kernel->can_be_recorded();) ++end;
    if (end - begin < 2) continue;
    found.emplace_back();
    found.back().begin = begin;
    found.back().end = end;
  }
  return found;
}

}  // namespace camshaft
