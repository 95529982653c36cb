// What became of the layers of a model that can be quantised, for people.
#pragma once

#include <string>
#include <vector>

#include "camshaft/report.hpp"

namespace camshaft::tools {

/// The first few of many names: "a, b, c, …".
std::string format_some(const std::vector<std::string>& names);

/// A line that counts those in int8, with what that saves where it was measured, and one for each reason why others are
/// in floating point.
void print_quantization(const std::vector<LayerPlacement>& layers);

}  // namespace camshaft::tools
