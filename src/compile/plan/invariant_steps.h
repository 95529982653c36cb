// What a plan computes of constants and sizes alone.
#pragma once

#include <vector>

#include "compile/plan/plan.h"

namespace camshaft {

/// Whatever the inputs hold, these compute the same for the same shapes: tables of positions, masks, what is drawn from
/// a seed.
struct InvariantSteps {
  std::vector<bool> steps;   ///< of each step
  std::vector<bool> values;  ///< of each value that has storage: whether such steps alone write it
};

/// Steps whose sizes only running tells are not among them, nor are those that write the caller's memory, which do so
/// in each run. May be asked before lifetimes are set, and again after steps or values have changed.
InvariantSteps find_invariant_steps(const Plan& plan);

}  // namespace camshaft
