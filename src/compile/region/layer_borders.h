// Why neighbouring layers of a plan are not one.
#pragma once

#include <vector>

#include "compile/explanation.h"
#include "compile/plan/plan.h"

namespace camshaft {

/// Adds a note to each layer (`explanations` are by node) for those that read its results. Readers that its notes name
/// already are left out: fuse() knows better why a pointwise operator stayed outside.
void note_borders(const Plan& plan, std::vector<LayerExplanation>& explanations);

}  // namespace camshaft
