// What convolutions and poolings share: kernel, strides, dilations and pads along the spatial axes.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

struct Window {
  std::vector<int64_t> kernel, strides, dilations;
  Shape pads;  ///< all begins, then all ends
};

/// Attributes kernel_shape (or `kernel`, for operators that can do without), strides, dilations, pads and auto_pad, the
/// last resolved for the input `x` [n, c, spatial...].
Window read_window(ConvertContext& c, ValueId x, std::optional<std::vector<int64_t>> kernel = std::nullopt);

/// The attribute, checked to have one positive number an axis; ones when absent.
std::vector<int64_t> positive_ints(ConvertContext& c, std::string_view name, size_t count);

}  // namespace camshaft::onnx
