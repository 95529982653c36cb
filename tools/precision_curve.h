// The curve of accuracy and speed as a picture.
#pragma once

#include <string>

#include "tools/precision_search.h"

namespace camshaft::tools {

/// An SVG of the score over the time of a run: a point for each engine that was tried, with the number of its layers in
/// floating point, the chosen one filled, and a line at the least score that `most` allows. `title` is any UTF-8.
std::string precision_curve(const PrecisionSearch& search, const ScoreDrop& most, const std::string& title);

}  // namespace camshaft::tools
