// Inputs that a plan may update in place: what a decoder keeps from step to step is not copied then.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/plan/plan.h"

namespace camshaft {

/// For each output the input whose memory it may be given; -1: none. The step that computes the output can write over
/// it, and nothing reads the input afterwards.
std::vector<int32_t> aliased_inputs(const Plan& plan);

}  // namespace camshaft
