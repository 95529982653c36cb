// Precisions that were asked of layers and that an engine does not have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "builder/optimize_model.h"

namespace camshaft {

/// Of each rule of BuildOptions::layer_precisions and layer_output_types that is not met, why, in words: it names no
/// node of the model, the build does not allow it, or layers are computed, or their results stored, in something else.
/// What another rule decides of a layer counts for that one alone.
std::vector<std::string> unmet_rules(const BuildOptions& options, const Graph& model, const OptimizedModel& optimized);

/// Says which rules are not met, as the constraints of the options want it: as warnings, or as Error(invalid_argument),
/// which says that with `prefer` `outcome` ("the engine is built") all the same.
void check_rules(const BuildOptions& options, const Graph& model, const OptimizedModel& optimized,
                 std::string_view outcome);

}  // namespace camshaft
