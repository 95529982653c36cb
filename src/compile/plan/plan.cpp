#include "compile/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace camshaft {

std::vector<DeviceId> Plan::devices() const {
  std::set<DeviceId> found = {DeviceId::host};
  for (const PlanStep& step : steps) found.insert(step.device);
  return {found.begin(), found.end()};
}

int32_t Plan::root(int32_t value) const {
  for (;;) {
    const PlanValue& v = values[static_cast<size_t>(value)];
    if (v.storage != Storage::alias && v.storage != Storage::slice) return value;
    value = v.index;
  }
}

bool Plan::is_dense(int32_t value) const {
  for (;;) {
    const PlanValue& v = values[static_cast<size_t>(value)];
    if (v.storage != Storage::alias && v.storage != Storage::slice) return true;
    const Shape& shape = v.type.shape;
    const Shape& whole = values[static_cast<size_t>(v.index)].type.shape;
    const bool one_row =
        !shape.empty() && std::all_of(shape.begin(), shape.end() - 1, [](const Dim& d) { return d == Dim(1); });
    if (v.storage == Storage::slice && !(shape.back() == whole.back())) return one_row;
    if (one_row) return true;
    value = v.index;
  }
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
