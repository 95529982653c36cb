// What layers take in two precisions.
#pragma once

#include <vector>

#include "quantize/place_quantization.h"
#include "runtime/profiler.h"

namespace camshaft {

/// Compares the layers of two engines of one model, `high` in floating point and `low` with layers in int8, by the
/// model's nodes that they come from: what shares a node, in either engine, is compared as a whole, so that the
/// conversions before and behind a layer count with it. Sets the seconds of each placement. Nodes without a name are
/// compared with nothing.
void compare_layers(const std::vector<LayerTime>& high, const std::vector<LayerTime>& low,
                    std::vector<LayerPlacement>& placed);

/// Of the quantised layers those that take longer in int8, and why they should stay as they are, in words.
KeptLayers slower_layers(const std::vector<LayerPlacement>& placed);

}  // namespace camshaft
