// Layer normalisation, for the converters of several groups.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

struct LayerNormOptions {
  int64_t axis;  ///< not negative
  double epsilon;
  bool root_mean_square;
};

/// The node's output 0; scale and bias may be no_value, and need only broadcast to x.
ValueId layer_norm(ConvertContext& c, ValueId x, ValueId scale, ValueId bias, const LayerNormOptions& options);

/// The node's outputs 1 and 2: the mean of x over the axes from options.axis on, which stay with the size 1, and the
/// reciprocal of the deviation from it. Where the root mean square is asked for, the mean counts as 0. What the node
/// does not use is no_value.
Values layer_statistics(ConvertContext& c, ValueId x, const LayerNormOptions& options);

}  // namespace camshaft::onnx
