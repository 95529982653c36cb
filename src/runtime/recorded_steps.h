// Runs of device steps that are launched as one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compile/plan/bound_plan.h"

namespace camshaft {

/// Two or more steps of a plan, one after another and on one device, that can be recorded. They are when they are run a
/// second time over the same operands: what runs only once is not worth it, and a device may bring a kernel's code when
/// it first runs. Where the operands are others each time, a recording gets those of the run.
struct RecordedSteps {
  /// Operands of a run: inputs, outputs and workspaces of all the steps.
  struct Run {
    std::vector<const std::byte*> operands;
    std::unique_ptr<DeviceRecording> recording, timed;  ///< the latter marks moments around each step
  };

  size_t begin = 0, end = 0;
  std::vector<Run> runs;       ///< the latest first
  bool can_be_updated = true;  ///< as far as is known

  /// The run before over these operands, null where none is remembered. A caller who takes turns with a few buffers
  /// finds each of them again.
  Run* find(std::span<const std::byte* const> operands);
  /// A run over these, which find() did not: in the place of the one that is the longest ago, when there are many.
  void remember(std::span<const std::byte* const> operands);
  /// Where there are many and none of them is likely to come again: the one to be used for a run over other operands.
  /// The longest ago of those with a recording, or of all. Null where there is room for another one.
  Run* find_fallback();
};

/// The recordings of a plan for one set of shapes.
struct Recordings {
  std::vector<bool> left_out;  ///< steps that do not run: copies that the caller's memory makes needless
  std::vector<RecordedSteps> segments;
  bool are_known = false;

  /// The segments, in order, for these steps left out; those of others are forgotten.
  std::vector<RecordedSteps>& of(const Plan& plan, const BoundPlan& bound, const std::vector<bool>& without);
};

}  // namespace camshaft
