#include "runtime/recorded_steps.h"

#include <algorithm>

namespace camshaft {

namespace {

// Runs over other operands that are remembered. A recording of a hundred kernels takes some hundred kilobytes.
constexpr size_t max_runs = 8;

std::vector<RecordedSteps> steps_to_record(const Plan& plan, const BoundPlan& bound, const std::vector<bool>& without) {
  std::vector<RecordedSteps> found;
  const size_t count = plan.steps.size();
  for (size_t begin = 0, end = 0; begin < count; begin = std::max(begin + 1, end)) {
    size_t steps = 0;
    for (end = begin; end < count; ++end) {
      if (without[end]) {
        if (steps == 0) ++begin;
        continue;
      }
      if (!bound.launch(end) || !plan.steps[end].kernel->can_be_recorded()) break;
      if (plan.steps[end].device != plan.steps[begin].device) break;
      ++steps;
    }
    if (steps < 2) continue;
    found.emplace_back();
    found.back().begin = begin;
    found.back().end = end;
  }
  return found;
}

}  // namespace

RecordedSteps::Run* RecordedSteps::find(std::span<const std::byte* const> operands) {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return std::equal(run.operands.begin(), run.operands.end(), operands.begin(), operands.end());
  });
  if (found == runs.end()) return nullptr;
  std::rotate(runs.begin(), found, found + 1);
  return &runs.front();
}

void RecordedSteps::remember(std::span<const std::byte* const> operands) {
  if (runs.size() < max_runs) runs.emplace_back();
  std::rotate(runs.begin(), runs.end() - 1, runs.end());
  runs.front().operands.assign(operands.begin(), operands.end());
  runs.front().recording.reset();
  runs.front().timed.reset();
}

RecordedSteps::Run* RecordedSteps::find_fallback() {
  if (runs.size() < max_runs) return nullptr;
  auto spare = std::find_if(runs.rbegin(), runs.rend(), [](const Run& run) { return run.recording != nullptr; });
  if (spare == runs.rend()) spare = runs.rbegin();
  return &*spare;
}

std::vector<RecordedSteps>& Recordings::of(const Plan& plan, const BoundPlan& bound, const std::vector<bool>& without) {
  if (!are_known || left_out != without) {
    segments = steps_to_record(plan, bound, without);
    left_out = without;
    are_known = true;
  }
  return segments;
}

}  // namespace camshaft
