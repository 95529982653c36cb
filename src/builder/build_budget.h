// How much work and memory a build may take.
#pragma once

#include <memory>

#include "base/budget.h"
#include "builder/builder.h"
#include "ir/graph.h"

namespace camshaft {

/// What the options allow for this model, or without them the defaults, which grow with its constants: 10^14
/// operations and 10^4 for each byte, and a quarter of the machine's memory (6 GiB at least) and 16 times the bytes.
/// Models of some size need no more than a hundredth of that; a file of some hundred bytes may ask for anything.
std::shared_ptr<Budget> make_budget(const BuildOptions& options, const Graph& model);

/// Looks ahead, before anything is measured or verified: throws Error(unsupported) that names the layer with the most
/// operations where one run of the model, on the sizes that it is first verified on, is more than the budget.
void check_operations(const Graph& model, const BuildOptions& options, const Budget& budget);

}  // namespace camshaft
