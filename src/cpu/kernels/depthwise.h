// f32 depthwise 2-D convolution on channels-last tensors: each channel has a kernel of its own. (Channels with several
// are narrow groups: grouped_conv.h.)
// Vectorised over channels; up to eight output pixels of a row share each load of the weights.
#pragma once

#include <cstdint>

#include "cpu/kernels/conv.h"

namespace camshaft::cpu {

/// Floats of packed weights: [kernel_h * kernel_w][out_channels] padded by one vector. The same on every machine.
int64_t depthwise_weight_floats(int64_t out_channels, int64_t kernel_h, int64_t kernel_w);
/// From ONNX order [out_channels, 1, kernel_h, kernel_w], and back exactly.
void pack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* oihw, float* packed);
void unpack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* packed,
                              float* oihw);

/// `shape.groups == shape.in_channels == shape.out_channels`.
/// Epilogue, strides and layout as in conv(); `output` must not overlap `input`; a residual may be `output` itself.
/// Needs no workspace and no plan. Throws Error(invalid_argument) for others.
void depthwise(const ConvShape& shape, const float* input, const float* packed, float* output, const Epilogue& epilogue,
               ThreadPool& pool);

}  // namespace camshaft::cpu
