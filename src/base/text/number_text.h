// Floating-point numbers as texts.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft {

/// The shortest text that gives a finite number of that floating dtype back, read and rounded once: "0.1" of an f16
/// that is 0.0999755859375.
std::string shortest_text(double value, DType dtype);

}  // namespace camshaft
