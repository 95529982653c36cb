// Sizes of a region at the shapes that tactics are chosen for.
#pragma once

#include "compile/backend.h"

namespace camshaft {

/// A size at the optimum shapes; symbols without a value count 1.
double size_at_optimum(const RegionView& region, const Dim& dim);
/// Elements of a value at the optimum shapes.
double elements_at_optimum(const RegionView& region, ValueId id);
/// Bytes of all operands of the region at the optimum shapes.
double bytes_at_optimum(const RegionView& region);

}  // namespace camshaft
