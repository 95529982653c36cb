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

}  // namespace camshaft::onnx
