// What a region computes, as text: two regions with the same text take the same time in any model.
#pragma once

#include <string>

#include "compile/backend.h"

namespace camshaft {

/// Operator and fields, or the body of a region with its values numbered, and the operands' dtypes and sizes at the
/// optimum: names, sources and the contents of large constants do not count. Sizes that only running can tell appear as
/// their expressions.
std::string problem_text(const RegionView& region);

}  // namespace camshaft
