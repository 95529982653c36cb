// How much memory a model touches.
#pragma once

#include "compile/backend.h"

namespace camshaft {

/// What one run through a model touches.
struct ModelBytes {
  size_t weights = 0;
  size_t activations = 0;  ///< of the layer that has the most
};

/// At the optimum shapes.
ModelBytes model_bytes(const Graph& graph, const SymbolBindings& symbols);

/// Of a region's constants.
size_t weight_bytes(const RegionView& region);

}  // namespace camshaft
