// Which constants the steps of a plan read.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compile/plan/plan.h"
#include "ir/graph.h"

namespace camshaft {

/// A constant as a step reads it.
struct StepWeight {
  std::string constant;
  std::string layout;  ///< of a packed form; empty: its own bytes
  std::span<const std::byte> bytes;
  bool is_table = false;  ///< rows of it are looked up, which are seldom many of them
};

/// Of each step of the plan that `graph` was lowered to, on the host or on a GPU: what it reads when it runs, each
/// once. Of loops and conditionals all that their bodies have, also what other runs do not come to. Strings, and what
/// kernels have copied, are left out.
std::vector<std::vector<StepWeight>> step_weights(const Plan& plan, const Graph& graph);

}  // namespace camshaft
