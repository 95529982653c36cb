// Which device has each value of a plan, and the copies between them.
#pragma once

#include "compile/plan/plan.h"

namespace camshaft {

/// For a plan whose steps have devices, over values that are all on the host: puts each value where the step that
/// computes it runs, and adds a copy of it, and the step that makes the copy, where a step on another device reads it.
/// Inputs and outputs stay the caller's, on the host. Copies are made once. Lifetimes must be set afterwards.
void place_values(Plan& plan);

/// Brings the constants that steps read on the queue's device there, in one piece.
void upload_constants(Plan& plan, DeviceQueue& queue);

}  // namespace camshaft
