// Runs of device steps that are launched as one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compile/bound_plan.h"

namespace camshaft {

/// Two or more steps of a plan, one after another, that can be recorded. They are when they are run a second time over
/// the same operands: what runs only once is not worth it, and a device may bring a kernel's code when it first runs.
struct RecordedSteps {
  size_t begin = 0, end = 0;
  std::vector<const std::byte*> operands;  ///< of the last run: inputs, outputs and workspaces of all the steps
  std::unique_ptr<DeviceRecording> recording;

  /// Remembers the operands of a run; whether they are those of the run before. What was recorded with others is lost.
  bool same_operands(std::span<const std::byte* const> now);
};

/// Those of a plan, in order, for one set of shapes.
std::vector<RecordedSteps> steps_to_record(const Plan& plan, const BoundPlan& bound);

}  // namespace camshaft
