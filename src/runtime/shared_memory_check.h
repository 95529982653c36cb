// Memory that the caller gives for an output and for an input at once.
#pragma once

#include "compile/plan/bound_plan.h"
#include "runtime/caller_memory.h"
#include "runtime/tensor_view.h"

namespace camshaft {

/// Whether the memory of the two does.
bool overlap(const CallerBuffer& a, const CallerBuffer& b);

/// Throws Error(invalid_argument) where what a run writes of an output overlaps what it reads of an input, or writes of
/// another output, unless it lies where its aliased input does.
void check_overlaps(const CallerMemory& memory, const BoundPlan& bound, const Plan& plan,
                    const std::vector<TensorInfo>& outputs);

}  // namespace camshaft
