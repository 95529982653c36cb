// Layers in messages: "layer 'ids' (from node '/embed/Gather')".
#pragma once

#include <string>
#include <vector>

#include "compile/backend.h"

namespace camshaft {

/// `name` is of the layer's first output, `sources` are the model's nodes that it came from.
std::string layer_name(const std::string& name, const std::vector<std::string>& sources);
std::string layer_name(const RegionView& region);

}  // namespace camshaft
