// How much work and memory a build may take.
#pragma once

#include <memory>

#include "base/budget.h"
#include "builder/builder.h"
#include "ir/graph.h"

namespace camshaft {

/// What the options allow for this model, or without them default_operations() and default_memory(), which grow with
/// its constants and inputs. The builds of tests/zoo take a hundredth at most; a file of some hundred bytes may ask for
/// anything.
std::shared_ptr<Budget> make_budget(const BuildOptions& options, const Graph& model);

/// Looks ahead, before anything is measured or verified: throws Error(unsupported) that names the layer with the most
/// operations where one run of the model, on the sizes that it is first verified on, is more than the budget.
void check_operations(const Graph& model, const BuildOptions& options, const Budget& budget);

}  // namespace camshaft
