#include "compile/plan.h"

#include <fmt/format.h>

namespace camshaft {

int32_t Plan::root(int32_t value) const {
  while (values[static_cast<size_t>(value)].storage == Storage::alias) value = values[static_cast<size_t>(value)].index;
  return value;
}

std::string to_string(const Plan& plan) {
  std::string out;
  const auto operands = [&](const std::vector<int32_t>& ids) {
    std::string text;
    for (const int32_t id : ids) {
      if (!text.empty()) text += ", ";
      text += id < 0 ? "-"
                     : fmt::format("{}: {}", plan.values[static_cast<size_t>(id)].name,
                                   to_string(plan.values[static_cast<size_t>(id)].type));
    }
    return text;
  };
  for (const PlanStep& step : plan.steps)
    out += fmt::format("{} = {}[{}]({})\n", operands(step.outputs), step.op, step.tactic, operands(step.inputs));
  return out;
}

}  // namespace camshaft
