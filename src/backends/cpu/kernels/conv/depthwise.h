// f32 depthwise 2-D convolution on channels-last tensors: each channel has a kernel of its own. (Channels with several
// are narrow groups: grouped_conv.h.)
// Vectorised over channels; up to eight output pixels of a row share each load of the weights.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/conv/conv.h"
#include "backends/cpu/kernels/row_channel_shares.h"

namespace camshaft::cpu {

/// Floats of packed weights: [out_channels / 16, rounded up][kernel_h * kernel_w][16], so that a vector of channels
/// reads memory in order (with all channels of a position side by side, the 7x7 images of EfficientNet-B0 waited for
/// weights half of their time). The same on every machine.
int64_t depthwise_weight_floats(int64_t out_channels, int64_t kernel_h, int64_t kernel_w);
/// From ONNX order [out_channels, 1, kernel_h, kernel_w], and back exactly.
void pack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* oihw, float* packed);
void unpack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* packed,
                              float* oihw);

/// How depthwise() is cut for at most `most` threads. Rows are [batch, out_h].
RowChannelShares depthwise_shares(const ConvShape& shape, int most);

/// `shape.groups == shape.in_channels == shape.out_channels`.
/// Epilogue, strides and layout as in conv(); `output` must not overlap `input`; a residual may be `output` itself.
/// Needs no workspace and no plan. Throws Error(invalid_argument) for others.
void depthwise(const ConvShape& shape, const float* input, const float* packed, float* output, const Epilogue& epilogue,
               ThreadPool& pool);

/// Some rows of one image. Its lines may lie in a ring buffer, in which only those are still there that these rows see.
struct DepthwiseBand {
  const float* input = nullptr;  ///< line l at input + l % ring_lines * in_w pixels
  int64_t ring_lines = 1;        ///< in_h where there is no ring
  float* output = nullptr;       ///< of row0
  int64_t row0 = 0, row1 = 0;
};

/// Rows [row0, row1), by the calling thread alone. The epilogue's residual and addend are those of row0; its callback
/// is left to the caller. Otherwise as depthwise(), whose requirements the shape must meet.
void depthwise_band(const ConvShape& shape, const DepthwiseBand& band, const float* packed, const Epilogue& epilogue);

}  // namespace camshaft::cpu
