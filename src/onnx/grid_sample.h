// GridSample, which both ONNX and com.microsoft have.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

Values grid_sample(ConvertContext& c);

}  // namespace camshaft::onnx
