// Constants in steps of i8 or f8e4m3.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Of f8e4m3.
constexpr float largest_float8 = 448;

struct QuantizedConstant {
  ValueId real = no_value;   ///< what the steps stand for, of the constant's shape
  ValueId scale = no_value;  ///< one number for each index of the axis
};

/// Adds nodes that quantise a constant of f32 to `dtype` (i8 or f8e4m3) without a zero point, each index of `axis` with
/// a scale of its own: its largest magnitude is step 127, or 448. Scales are not below `least`, where it is given, one for each index. They fold, so
/// that the steps know what they are made of.
QuantizedConstant quantize_constant(Graph& graph, ValueId constant, int64_t axis,
                                    const std::vector<std::string>& sources, ValueId least = no_value,
                                    DType dtype = DType::i8);

}  // namespace camshaft
